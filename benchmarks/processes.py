"""Child processes of a benchmark, and what they cost: CPU time and memory out of /proc.

Every process is started in a session of its own and killed with its whole group at `stop`; when this process is killed
before that, the kernel ends them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks import launch

LAUNCH = Path(launch.__file__)
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Processes:
    """Named groups of processes. The costs of processes with the same name are added up."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), *argv],
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._started.append((name, process))
        return process

    def log(self, name: str) -> str:
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self, *names: str) -> None:
        """SIGTERM, then SIGKILL to what is left of each group. All of them when none is named."""
        going = [(n, p) for n, p in self._started if not names or n in names]
        self._started = [entry for entry in self._started if entry not in going]
        for _, process in reversed(going):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for _, process in reversed(going):
            with suppress(subprocess.TimeoutExpired):
                process.wait(8)
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def pids(self) -> dict[str, list[int]]:
        """Name -> pids of its processes; the children of a process are `<name> children`."""
        found: dict[str, list[int]] = {}
        for name, process in self._started:
            found.setdefault(name, []).append(process.pid)
            if children := _children(process.pid):
                found.setdefault(f"{name} children", []).extend(children)
        return found

    def cpu_seconds(self) -> dict[str, float]:
        return {name: sum(_cpu_seconds(pid) for pid in pids) for name, pids in self.pids().items()}

    def rss_mib(self) -> dict[str, list[float]]:
        return {name: [_rss_mib(pid) for pid in pids] for name, pids in self.pids().items()}


def own_cpu_seconds() -> float:
    return _cpu_seconds(os.getpid())


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found


def _cpu_seconds(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS_PER_SECOND


def _rss_mib(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0
