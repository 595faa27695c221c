"""What a job's user wanted at the moment in which a pod was made, or a ReplicaSet or batch Job was told to keep more.

What the contract says of two pods in one place:

- The operator's own pods have fixed names, so that a successor cannot be made before its predecessor is gone, its grace
  included. A pod in deletion therefore holds its place here.
- A ReplicaSet counts no pod in deletion, and replaces it at once. So does a batch Job whose `podReplacementPolicy` is
  TerminatingOrFailed, as the operator's are. A pod in deletion counts for neither here. Both may make a pod in the
  moment before they are told of a smaller number; then what they were last told counts.

And of a job that is made and deleted within seconds: its first pods follow no status, so a view that still has it may
make them. They go with their owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tjworker.api import labels
from tjworker.api.indices import parse_indices
from tjworker.api.model import TrainingJob

Json = dict[str, Any]
UNTOLD_SECONDS = 5.0 + 1.0
"""Of so young a job no status goes first (docs/adr/0030), and so long the view may be in a pass' hand."""


def wanted(job: TrainingJob | None, role: str) -> int:
    if job is None or job.suspend or job.status.ended or job.status.ending is not None:
        return 0
    return next((r.replicas for r in job.roles if r.name == role), 0)


def unwanted_pod(
    pod: Json, job: TrainingJob | str | None, pods: Sequence[Json], sizes: Mapping[str, int]
) -> Iterator[str]:
    """`pods`: all there are, with this one; `sizes`: by UID, how many each controller was told to keep."""
    if isinstance(job, str):
        return
    marks = _labels(pod)
    if labels.TENSORBOARD_CONFIG in marks:
        return  # no replica; the model has a rule for it
    role = marks.get(labels.REPLICA_NAME, "")
    most = wanted(job, role)
    owner: Json = next((o for o in pod["metadata"].get("ownerReferences") or () if o.get("controller")), {})
    mine = [p for p in pods if _labels(p).get(labels.JOB_UID) == marks[labels.JOB_UID] and _of(p, role)]
    if owner.get("uid") in sizes:
        alive = [p for p in mine if "deletionTimestamp" not in p["metadata"] and not _ended(p)]
        most = max(most, sizes[owner["uid"]])
        if len(alive) > most:
            yield f"{len(alive)} pods of role {role} live, {most} are wanted"
        return
    index = int(marks.get(labels.REPLICA_INDEX, -1))
    if index >= most:
        yield f"made when {most} of role {role} were wanted"
    elif job is not None and index in _final(job, role):
        yield f"made when number {index} of role {role} had come to its end for good"
    if sum(_labels(p).get(labels.REPLICA_INDEX) == str(index) for p in mine) > 1:
        yield f"made beside another number {index} of role {role}"


def unwanted_size(owner: Json, size: int, job: TrainingJob | str | None) -> Iterator[str]:
    role = _labels(owner).get(labels.REPLICA_NAME, "")
    if not isinstance(job, str) and size > wanted(job, role):
        yield f"told to keep {size} pods when {wanted(job, role)} of role {role} were wanted"


def size_of(owner: Json) -> int | None:
    found: int | None = owner["spec"].get("replicas", owner["spec"].get("parallelism"))
    return found


def _final(job: TrainingJob, role: str) -> set[int]:
    attempts = job.status.attempts.roles.get(role)
    if attempts is None:
        return set()
    return {*parse_indices(attempts.completed, 10_000), *parse_indices(attempts.failed, 10_000)}


def _of(pod: Json, role: str) -> bool:
    return bool(_labels(pod).get(labels.REPLICA_NAME) == role)


def _ended(pod: Json) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _labels(obj: Json) -> Json:
    found: Json = obj["metadata"].get("labels") or {}
    return found
