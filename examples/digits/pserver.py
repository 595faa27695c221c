"""`python -m examples.digits.pserver`: holds the parameters whose names hash to it, and applies gradients to them.

Starts empty and asks callers to come again until the master has given it parameters: fresh ones, or after a restart
those of the newest checkpoint. So it needs no disk. Also keeps a note for the master (the state of its queue), which a
restarted master reads. Ends with 0 when the master says so, with 143 on SIGTERM: it had not finished.

Has no authentication: a process that reaches the port can change the model. In a cluster a network policy prevents it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from examples.digits.env import BadEnvironment, read_place
from examples.digits.optimizer import BadGradient, Store
from examples.digits.rpc import CannotListen, Refused, Server, Session, listen, on_asked_to_end, say
from examples.digits.wire import Array, Message, ProtocolError

DEFAULT_PORT = 7001


class ParameterService:
    """`pull`, `push`, `status`, `export`, `restore`, `note`, `finish`. Every one may be sent twice."""

    def __init__(self) -> None:
        self.finished = threading.Event()
        self._lock = threading.Lock()
        self._store = Store()
        self._note: dict[str, Any] | None = None
        self._told_to_finish = False
        self._operations: dict[str, Callable[[Message], Message]] = {
            "pull": self._pull,
            "push": self._push,
            "status": self._status,
            "export": self._export,
            "restore": self._restore,
            "note": self._keep_note,
            "finish": self._finish,
        }

    def handle(self, session: Session, request: Message) -> Message:
        operation = self._operations.get(request.op)
        if operation is None:
            raise ProtocolError(f"operation {request.op!r} is not one of a parameter server")
        with self._lock:
            return operation(request)

    def closed(self, session: Session) -> None:
        # Not before the caller has its answer, or it would take a server that did as told for one that died.
        if self._told_to_finish:
            self.finished.set()

    def _pull(self, request: Message) -> Message:
        self._must_hold_parameters()
        return self._answer(self._store.parameters)

    def _push(self, request: Message) -> Message:
        self._must_hold_parameters()
        seen, rate = request.fields.get("seen_version"), request.fields.get("learning_rate")
        if not isinstance(seen, int) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise Refused(f"push with seen_version {seen!r} and learning_rate {rate!r}: must be an integer, and 0 to 1")
        try:
            self._store.apply(request.arrays, seen_version=seen, learning_rate=float(rate))
        except BadGradient as error:
            raise Refused(str(error)) from None
        return self._answer()

    def _status(self, request: Message) -> Message:
        return Message("ok", {"version": self._store.version, "empty": self._store.empty, "note": self._note})

    def _export(self, request: Message) -> Message:
        self._must_hold_parameters()
        return self._answer(self._store.export())

    def _restore(self, request: Message) -> Message:
        self._store.restore(request.arrays, int(request.fields["version"]))
        say(f"holds {len(self._store.parameters)} blocks, as they were after {self._store.version} updates")
        return self._answer()

    def _keep_note(self, request: Message) -> Message:
        self._note = dict(request.fields["note"])
        return self._answer()

    def _finish(self, request: Message) -> Message:
        if not self._told_to_finish:
            say(f"finished after {self._store.version} updates")
        self._told_to_finish = True
        return self._answer()

    def _must_hold_parameters(self) -> None:
        if self._store.empty:
            raise Refused("it has no parameters yet, the master will restore them", retry=True)

    def _answer(self, arrays: Mapping[str, Array] | None = None) -> Message:
        return Message("ok", {"version": self._store.version}, dict(arrays or {}))


def main(arguments: list[str] | None = None) -> int:
    argparse.ArgumentParser(
        prog="python -m examples.digits.pserver", description=(__doc__ or "").partition("\n")[0]
    ).parse_args(arguments)
    ended = threading.Event()
    on_asked_to_end(ended.set)
    try:
        place = read_place("pserver")
        listener = listen(place, DEFAULT_PORT)
    except (BadEnvironment, CannotListen) as error:
        print(f"pserver: {error}", file=sys.stderr)
        return 2
    service = ParameterService()
    server = Server(service, listener)
    say(f"{place.name} serves on {server.address}" + (f", restart {place.restarts}" if place.restarts else ""))
    while not ended.is_set() and not service.finished.wait(0.1):
        pass
    server.close()
    return 0 if service.finished.is_set() else 128 + signal.SIGTERM


if __name__ == "__main__":
    sys.exit(main())
