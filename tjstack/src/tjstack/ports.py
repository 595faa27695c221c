"""Which TCP ports a stack listens on. A port is tried by binding it for a moment, and claimed for as long as the stack
lives, so that two stacks that start at the same moment do not choose the same one before either listens.
"""

from __future__ import annotations

import random
import socket
import sys
from contextlib import ExitStack

from tjworker.cli.errors import UserError

_LOW, _HIGH = 20_000, 31_999
"""Below Linux's range for outgoing connections (32768 on): else a client could take a port while the service that owns
it is being restarted."""


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: without it, connections of an earlier stack in TIME_WAIT would make a free port look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Claims(ExitStack):
    """The ports of one stack. A claim is an abstract Unix socket named after the port: the kernel lets one process have
    it, of any user, and takes it back when that process dies. macOS has none: there other stacks see no claim."""

    def __init__(self) -> None:
        super().__init__()
        self._held: set[int] = set()

    def choose(self, what: str, option: str, asked: int | None, preferred: int) -> tuple[int, str]:
        """The port for one service, and a line to say when it is not the usual one. `preferred` 0: none is usual.

        `asked` is the user's own choice: taken, it is an error, as another port would not be what was asked for.
        """
        if asked is not None:
            if not self._claim(asked):
                raise UserError(
                    f"port {asked} for {what} is taken; choose another with {option} PORT, or stop what listens there"
                )
            return asked, ""
        if preferred and self._claim(preferred):
            return preferred, ""
        for port in random.SystemRandom().sample(range(_LOW, _HIGH + 1), 200):
            if self._claim(port):
                note = f"port {preferred} is taken: {what} listens on {port} (choose one with {option} PORT)"
                return port, note if preferred else ""
        raise UserError(f"no free TCP port found between {_LOW} and {_HIGH} on 127.0.0.1; stop what holds them")

    def _claim(self, port: int) -> bool:
        if port in self._held or not is_free(port):
            return False
        if sys.platform == "linux":
            claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                claim.bind(f"\0trainingjob-port-{port}")
            except OSError:
                claim.close()
                return False
            self.enter_context(claim)
        self._held.add(port)
        return True
