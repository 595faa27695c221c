"""One program as a child of this process: start, look, stop. Its output goes to a log file; it never outlives us
(Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_LAUNCH = Path(__file__).with_name("launch.py")
_LOG_BYTES_SHOWN = 2000


class Process:
    """`start` may be called again once it has ended."""

    def __init__(self, name: str, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        """`env` None: that of this process."""
        self.name = name
        self.log = log
        self._env = env
        self._command = [sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *command]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            # A session of its own: Ctrl-C in a terminal reaches us alone, and we stop them in order.
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, start_new_session=True
            )

    @property
    def pid(self) -> int:
        return self._child.pid if self._child else 0

    def ended(self) -> str:
        """How it ended; '' while it runs or when it has never been started."""
        code = self._child.poll() if self._child else None
        if code is None:
            return ""
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def stop(self, grace_seconds: float) -> None:
        """SIGTERM, and SIGKILL after the grace (at once when it is 0)."""
        if self._child is None or self._child.poll() is not None:
            return
        if grace_seconds > 0:
            self._child.terminate()
            try:
                self._child.wait(grace_seconds)
                return
            except subprocess.TimeoutExpired:
                pass
        self._child.kill()
        self._child.wait()

    def last_words(self) -> str:
        try:
            return self.log.read_bytes()[-_LOG_BYTES_SHOWN:].decode(errors="replace")
        except OSError:
            return ""
