"""One process of the stack: what to run, when, and how one sees that it is ready. Data, and the running instance of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tjworker.cli.stack import launch, logfile, processes
from tjworker.cli.stack.processes import ProcessId


@dataclass(frozen=True, slots=True)
class Service:
    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """The whole environment, the stack's mark not included."""
    cwd: Path | None = None
    after: tuple[str, ...] = ()
    """Names of services that must be ready first."""
    ready: Callable[[], bool] | None = None
    """Asked again and again until True, by the supervisor's thread: it answers within a second. None: ready once it runs."""
    one_shot: bool = False
    """It is to end by itself, and is ready when it has ended with exit code 0."""
    stop_stage: int = 0
    """Stages are stopped in ascending order, the services of one at the same time."""
    stop_seconds: float = 5.0
    """How long it may take to end by itself before it is killed."""


@dataclass(slots=True)
class Running:
    """A service and its present process. Only the supervisor's thread touches it."""

    service: Service
    process: subprocess.Popen[bytes] | None = None
    identity: ProcessId | None = None
    is_ready: bool = False
    ever_ready: bool = False
    started_at: float = 0.0
    start_due: float = 0.0
    """When it may start (again)."""
    probe_due: float = 0.0
    deaths: int = 0

    def start(self, log: Path, mark: str) -> None:
        """Start the process: its own session and group, output to its log, told by the kernel when this process dies (the
        kernel watches the calling thread, so that must live as long as the stack)."""
        output = logfile.open_log(log)
        command = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), *self.service.argv]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.service.cwd,
                start_new_session=True,
                env={**self.service.env, processes.MARKER: mark},
            )
        finally:
            os.close(output)
        self.identity = processes.identify(self.process.pid)
        self.is_ready = False

    def signal(self, signum: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signum)

    def kill_group(self) -> None:
        """End what is left of its process group: a killed Celery worker leaves its children behind."""
        if self.process is not None:
            processes.kill_group(self.process.pid)
