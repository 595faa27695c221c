"""The state folder's owner and its processes, on disk: who holds the folder, what it runs, what an earlier owner left.

The lock says who owns the folder: the kernel gives it back when its holder dies, however it dies. The roster (pid and
start time of each process) and the mark in each process's environment say what belongs to it. `sweep` ends every process
of earlier runs; it may run twice, and at the same time as another sweep.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from tjworker.cli.errors import UserError
from tjworker.cli.stack import pods, processes
from tjworker.cli.stack.paths import StatePaths
from tjworker.cli.stack.processes import ProcessId

_WARDEN_SECONDS = 10.0


def take_lock(paths: StatePaths) -> IO[str]:
    """The open lock file; closing it gives the folder back. Raises UserError when another stack runs in it."""
    try:
        paths.root.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds credentials
        handle = paths.lock.open("a+", encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"cannot use the state folder {paths.root}: {error.strerror}; choose another with --state-dir DIR"
        ) from None
    deadline = time.monotonic() + _WARDEN_SECONDS
    while not try_lock(handle):
        handle.seek(0)
        owner = handle.read().strip() or "unknown"
        # A dead owner's lock is its warden's, for a moment; a new owner writes its name a moment after it has the lock.
        passing = owner == "unknown" or (owner.isdigit() and processes.identify(int(owner)) is None)
        if not passing or time.monotonic() > deadline:
            handle.close()
            raise UserError(
                f"a stack already runs in {paths.root} (pid {owner}); use it (export KUBECONFIG={paths.kubeconfig}), "
                f"stop it (kill {owner}), or start a second one with --state-dir DIR"
            )
        time.sleep(0.1)
    handle.truncate(0)
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    return handle


def try_lock(handle: IO[str]) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_roster(paths: StatePaths, run_id: str, services: dict[str, ProcessId]) -> None:
    """Replace the roster atomically."""
    body = {name: {"pid": p.pid, "started": p.started} for name, p in services.items()}
    fresh = paths.roster.with_suffix(".new")
    fresh.write_text(json.dumps({"run": run_id, "services": body}, indent=1) + "\n", encoding="utf-8")
    fresh.replace(paths.roster)


def read_roster(path: Path) -> tuple[str, dict[str, ProcessId]]:
    """The last owner's run id and processes; empty when there is no roster or it cannot be read."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        return str(body["run"]), {
            str(n): ProcessId(int(p["pid"]), str(p["started"])) for n, p in body["services"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "", {}


def leftovers(paths: StatePaths, run_id: str = "", *, excluding: str = "", and_pods: bool = True) -> list[ProcessId]:
    """Live processes of this folder's stacks: of the run `run_id` only when that is given, of every run but `excluding` when
    that is given. With `and_pods` also the pods, which belong to the folder and not to a run: only for who owns it."""
    found = {p.pid: p for p in processes.marked(paths.root, run_id=run_id, excluding=excluding)}
    if and_pods:
        found.update({p.pid: p for p in pods.below(paths.cluster_data)})
    last_run, services = read_roster(paths.roster)
    if last_run and last_run != excluding and run_id in ("", last_run):
        found.update({p.pid: p for p in services.values() if processes.alive(p) and p.pid != os.getpid()})
    return list(found.values())


def end(targets: Iterable[ProcessId], *, grace_seconds: float) -> int:
    """SIGTERM, then SIGKILL to what is still there after the grace. How many there were."""
    waiting = list(targets)
    count = len(waiting)
    for process in waiting:
        processes.send(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while waiting and time.monotonic() < deadline:
        time.sleep(0.05)
        waiting = [p for p in waiting if processes.alive(p)]
    for process in waiting:
        processes.send(process, signal.SIGKILL)
    deadline = time.monotonic() + 1.0
    while any(processes.alive(p) for p in waiting) and time.monotonic() < deadline:
        time.sleep(0.01)
    return count


def sweep(
    paths: StatePaths, run_id: str = "", *, excluding: str = "", and_pods: bool = True, grace_seconds: float = 3.0
) -> int:
    """End every leftover. Looks again until none is found, since a process may start another while it is being ended."""
    count = 0
    for _ in range(5):
        found = leftovers(paths, run_id, excluding=excluding, and_pods=and_pods)
        if not found:
            break
        count += end(found, grace_seconds=grace_seconds)
        grace_seconds = min(grace_seconds, 0.5)
    return count
