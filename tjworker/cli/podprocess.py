"""The process behind a replica that runs on this machine: found by the environment that the operator gives each container.

For the demo, which kills one as a crash would: with a signal to the process, behind the back of every API. Linux only.
"""

from __future__ import annotations

from pathlib import Path

from tjworker.cli.stack import pods
from tjworker.cli.stack.paths import StatePaths
from tjworker.cli.stack.processes import ProcessId


def find(state_dir: Path, job: str, role: str, index: int) -> ProcessId | None:
    """The program of this replica: of the processes in its container the one that started the others. None when there is
    none, or more than one candidate (a pod that is being replaced)."""
    wanted = {f"TRAININGJOB_NAME={job}", f"TRAININGJOB_REPLICA_NAME={role}", f"TRAININGJOB_REPLICA_INDEX={index}"}
    found = list(pods.running(StatePaths(state_dir).cluster_data, frozenset(wanted)))
    inside = {p.pid for p in found}
    roots = [p for p in found if _parent(p.pid) not in inside]
    return roots[0] if len(roots) == 1 else None


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
