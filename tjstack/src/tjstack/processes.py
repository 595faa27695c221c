"""The processes of a stack: found by marks in their environment, and identified by psutil (pid and start time).

Each service carries MARKER with the stack's state folder, and its children inherit it. Pods have an environment of
their own and outlive the local cluster on purpose; the kubelet marks each process of a container, and starts the
container runner with the container's folder as its last argument. Every function is safe to run twice; a process that
is gone is never an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil

from tjstack.paths import StatePaths

MARKER = "TJSTACK"
"""Not `TJ_...`: those are the operator's settings."""

_CONTAINER = "LOCALCLUSTER_CONTAINER"
_ROUNDS = 5


def of_stack(paths: StatePaths) -> list[psutil.Process]:
    """Every live process of the stacks of this state folder, pods included."""
    runner = re.compile(re.escape(str(paths.cluster_data)) + "/pods/[^/]+/containers/[^/]+/[^/]+")
    found = [p for p, environment in _others() if environment.get(MARKER) == str(paths.root)]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if runner.fullmatch((process.cmdline() or [""])[-1]):
                found.append(process)
    return list({*found, *in_containers(paths.cluster_data)})


def in_containers(cluster_data: Path, **environment: str) -> Iterator[psutil.Process]:
    """The processes inside containers of the local cluster with this data folder, of those with this environment."""
    for process, theirs in _others():
        if theirs.get(_CONTAINER, "").startswith(f"{cluster_data}/") and environment.items() <= theirs.items():
            yield process


def program(cluster_data: Path, **environment: str) -> psutil.Process | None:
    """The one of `in_containers` that started the others; None when there is none, or more than one candidate (a pod
    that is being replaced)."""
    found = set(in_containers(cluster_data, **environment))
    roots = []
    for process in found:
        with contextlib.suppress(psutil.Error):
            if process.parent() not in found:
                roots.append(process)
    return roots[0] if len(roots) == 1 else None


def replica(paths: StatePaths, job: str, role: str, index: int) -> psutil.Process | None:
    """The program of this replica, by the environment that the operator gives each container."""
    names = {"TRAININGJOB_NAME": job, "TRAININGJOB_REPLICA_NAME": role, "TRAININGJOB_REPLICA_INDEX": str(index)}
    return program(paths.cluster_data, **names)


def end_all(paths: StatePaths, *, grace_seconds: float) -> int:
    """End every process of the stack: SIGTERM, SIGKILL after the grace, and again until none is left, since a process
    may start another while it is being ended. How many there were."""
    count = 0
    for _ in range(_ROUNDS):
        found = of_stack(paths)
        if not found:
            break
        count += len(found)
        for process in found:
            send(process, signal.SIGTERM)
        _, late = psutil.wait_procs(found, timeout=grace_seconds)
        for process in late:
            send(process, signal.SIGKILL)
        psutil.wait_procs(late, timeout=1.0)
        grace_seconds = min(grace_seconds, 0.5)
    return count


def send(process: psutil.Process, signum: signal.Signals) -> None:
    """Signal the process if it is still the same one."""
    with contextlib.suppress(psutil.Error):
        process.send_signal(signum)


def exists(pid: int) -> bool:
    """A zombie counts as gone: it does nothing any more, and may stay for as long as its parent does."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def kill_group(group: int) -> None:
    """End a whole process group. Each service leads a group of its own; the caller's own group is never meant."""
    if group > 1 and group != os.getpgrp():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _others() -> Iterator[tuple[psutil.Process, dict[str, str]]]:
    """Every other process whose environment we may read."""
    for process in psutil.process_iter():
        if process.pid != os.getpid():
            with contextlib.suppress(psutil.Error, OSError):
                yield process, process.environ()
