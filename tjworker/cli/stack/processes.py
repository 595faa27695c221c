"""Processes as the operating system shows them: identity (pid and start time), marks, groups, signals.

A pid alone names nobody, as the system gives it out again; pid and start time do. A mark is an environment variable that
every process of a stack inherits, so that what outlived its parent can still be found (pods have an environment of their own:
`pods`). Every function is safe to run twice; a process that is gone is never an error. Standard library only: the warden
runs without the rest.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARKER = "TJSTACK"
"""`<state folder>#<run id>`. Not `TJ_...`: those are the operator's settings."""

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessId:
    pid: int
    started: str
    """Opaque: compared for equality only."""


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now, None when there is none (a zombie counts as none)."""
    if sys.platform == "linux":
        try:
            # The command's name may hold blanks and brackets: the fields that follow start after the last bracket.
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return None
        return None if fields[0] in "ZX" else ProcessId(pid, fields[19])
    shown = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = shown.stdout.strip().partition(" ")
    return ProcessId(pid, started.strip()) if state and not state.startswith("Z") else None


def alive(process: ProcessId) -> bool:
    return identify(process.pid) == process


def mark(root: Path, run_id: str) -> str:
    """The value of MARKER for one run in one state folder."""
    return f"{root}#{run_id}"


def marked(root: Path, *, run_id: str = "", excluding: str = "") -> list[ProcessId]:
    """Live processes of the stacks of this state folder: of the run `run_id` only, when that is given; never of the run
    `excluding`. Only on Linux; elsewhere environments of others cannot be read without a helper, and the list is empty."""
    if sys.platform != "linux":
        return []
    name = f"{MARKER}=".encode()
    found = []
    for pid, environment in environments():
        value = next((os.fsdecode(v[len(name) :]) for v in environment if v.startswith(name)), "")
        # From the right: a run id has no '#', a folder may.
        folder, _, run = value.rpartition("#")
        if folder != str(root) or (run_id and run != run_id) or (excluding and run == excluding):
            continue
        process = identify(pid)
        if process is not None:
            found.append(process)
    return found


def environments() -> Iterator[tuple[int, list[bytes]]]:
    """pid and environment of every other process that we may look into. Linux only."""
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # gone meanwhile, or another user's
                yield int(entry.name), (entry / "environ").read_bytes().split(b"\0")


def send(process: ProcessId, signum: int) -> None:
    """Signal the process if it is still the same one."""
    if alive(process):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signum)


def kill_group(group: int, signum: int = signal.SIGKILL) -> None:
    """Signal a whole process group. Every service leads a group of its own; the caller's own group is never meant."""
    if group > 1 and group != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signum)
