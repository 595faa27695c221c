"""The processes of pods on this machine, as the local cluster's agent leaves them to be found.

Pods outlive the agent on purpose (it takes them back when it starts again), and their environment is their own, without the
stack's mark. The agent marks them in its own way: each process of a container has LOCALCLUSTER_CONTAINER, the container's
folder, in its environment, and that folder holds `shim.json` with the pid and start time of the container's keeper. Reads
only; Linux only. Standard library only: the warden runs without the rest.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tjworker.cli.stack import processes
from tjworker.cli.stack.processes import ProcessId

_MARK = b"LOCALCLUSTER_CONTAINER="


def below(cluster_data: Path) -> list[ProcessId]:
    """Every live process of a pod, keepers included, of the local cluster with this data folder."""
    if sys.platform != "linux":
        return []
    found = {p.pid: p for p in _keepers(cluster_data)}
    found.update({p.pid: p for p in running(cluster_data)})
    return list(found.values())


def running(cluster_data: Path, environment: frozenset[str] = frozenset()) -> Iterator[ProcessId]:
    """The live processes inside containers, of those whose environment has all of `environment` (`NAME=value`)."""
    start = _MARK + os.fsencode(cluster_data) + b"/"
    wanted = {os.fsencode(v) for v in environment}
    for pid, values in processes.environments():
        if any(v.startswith(start) for v in values) and wanted <= set(values):
            process = processes.identify(pid)
            if process is not None:
                yield process


def _keepers(cluster_data: Path) -> Iterator[ProcessId]:
    for file in cluster_data.glob("pods/*/containers/*/*/shim.json"):
        try:
            body = json.loads(file.read_text(encoding="utf-8"))
            process = ProcessId(int(body["shim"]), str(body["shim_ticks"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if processes.alive(process):
            yield process
