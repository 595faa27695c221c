"""Pods that a batch Job lacks because its controller waits: the operator makes them in the Job's name. Pure.

After each pod that fails, is deleted or is lost, the controller of batch Jobs waits longer before it makes the next: 10
s, 20 s, 40 s, up to ten minutes (kubernetes v1.36 `pkg/controller/job/backoff_utils.go`). But it only asks how many of
the Job's pods are active, not who made them. So a replacement is made here as the controller would make it, owned by
the Job and with its finalizer; and with its ordinal from the start, under a name that slot and attempt fix (where a pod
of another slot has it, that one's UID, too), so that a second create is harmless (409). Why: docs/adr/0017.

Only where the Job's own status tells that it has fewer than it wants: its controller has seen the loss then, and waits.
None for a work queue that a trainer has found empty; nor more than a Job with completions has left of them, for its
controller would take them away. Should both make one in the same moment, the controller takes away
the one that is too many, and counts no failure; nor does `policies.controller_managed`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tjworker.api import labels
from tjworker.api.observed import ENDED_PHASES, PodRecord, WorkloadRecord
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.failures import diagnose, ended_at
from tjworker.reconcile.replicas import Replica, RoleView, stopped
from tjworker.reconcile.rests import CRASHED_SECONDS, ran_long, rest_seconds
from tjworker.reconcile.slots import ordinal_of

HEAD_START_SECONDS = 2.0
"""After a change of the count, which a Job's status does not confirm: a Job has no observedGeneration."""
_SUFFIX_LENGTH = 5
SILENT_SECONDS = 3.0
"""A controller that has counted failures, lacks pods and has made none for so long waits."""


@dataclass(frozen=True, slots=True)
class Replacements:
    due: tuple[tuple[str, Replica], ...] = ()
    """Slots whose pod is to be made now, each with the pod's name."""
    next_seconds: float | None = None
    """Until the next one is due."""


def find_replacements(view: RoleView, wanted: int, now: float) -> Replacements:
    """`wanted`: pods that the batch Job is to keep; until it says so itself, its controller goes first."""
    owner = view.owner
    if owner is None or owner.deleted_at or owner.condition:
        return Replacements()
    if owner.desired != wanted:  # this pass tells the Job; the echo of an own write is no news
        waits_long = owner.failed or view.attempts.pods
        return Replacements(next_seconds=SILENT_SECONDS if waits_long and wanted > owner.desired else None)
    pods = [*view.surplus, *view.others, *(r.pod for r in view.replicas if r.pod is not None)]
    mine = [p for p in pods if p.owner_uid == owner.uid]
    active = sum(not p.deleted_at and p.phase not in ENDED_PHASES for p in mine)
    room = owner.desired - (owner.succeeded if view.role.edl_policy == "Never" else 0) - active
    # The Job tells of more than we see: its controller has not seen the loss yet, or we have not seen its pods.
    if room <= 0 or active < owner.active or _found_empty(view, owner, mine):
        return Replacements()
    fresh = _fresh_seconds(view, owner, mine, now)
    waits = [(_seconds_left(view, r, owner, fresh, now), r) for r in view.replicas if r.state == "missing"]
    due = [r for left, r in waits if left is not None and left <= 0][:room]
    later = [left for left, _ in waits if left is not None and left > 0]
    held = {pod.name: pod.uid for pod in pods}
    return Replacements(tuple((_name(owner, r, held), r) for r in due), min(later, default=None))


def _name(owner: WorkloadRecord, replica: Replica, held: Mapping[str, str]) -> str:
    """A pod keeps its name when it takes another slot. Whoever finds the name held goes on to one that the holder's UID
    fixes, so that a second create is harmless there, too."""
    name = f"{owner.name}-{replica.index}-{replica.attempt}"
    while name in held:
        name = f"{name}-{hashlib.sha256(held[name].encode()).hexdigest()[:_SUFFIX_LENGTH]}"
    return name


def _found_empty(view: RoleView, owner: WorkloadRecord, mine: Iterable[PodRecord]) -> bool:
    """A work queue in which a trainer has succeeded gets no more of them: the Job is complete when the others end."""
    if view.role.edl_policy == "Never" or view.misled:
        return False
    return bool(owner.succeeded) or any(p.phase == "Succeeded" and not stopped(p) for p in mine)


def _seconds_left(
    view: RoleView, replica: Replica, owner: WorkloadRecord, fresh: float | None, now: float
) -> float | None:
    """Until the operator makes this slot's pod; None: it is the controller's to make."""
    if str(replica.index) not in view.attempts.pods:
        return fresh
    head_start = _counted_since(owner) + HEAD_START_SECONDS
    unmade_until = from_rfc3339(view.unmade_until.get(replica.index, "")) or 0.0
    return max(head_start, _rested_at(view, replica), unmade_until) - now


def _fresh_seconds(view: RoleView, owner: WorkloadRecord, mine: Iterable[PodRecord], now: float) -> float | None:
    """As `_seconds_left`, of a slot that has lost no pod: after scaling up or resuming, while the controller still
    waits for failures of before, or makes none any more. Or another pod, which had no ordinal yet, has taken the place
    of one that failed: then this slot rests for it, as after a first failure."""
    if not owner.failed and not owner.succeeded:
        return None
    made = (from_rfc3339(p.created_at) for p in mine if not _by_us(owner, p))
    last = max((t for t in made if t is not None), default=0.0)
    rested = max(_failures_passed_on(view), default=0.0) + CRASHED_SECONDS + HEAD_START_SECONDS
    return max(last + SILENT_SECONDS, _counted_since(owner) + SILENT_SECONDS, rested) - now


def _failures_passed_on(view: RoleView) -> Iterator[float]:
    """When those trainers failed by themselves whose slot has a pod that was there before."""
    holders = {replica.index: replica.pod for replica in view.replicas}
    for pod in view.others:
        ordinal, ended = ordinal_of(pod), ended_at(pod)
        holder = holders.get(ordinal[0]) if ordinal is not None else None
        if holder is None or ended is None or not _failed_by_itself(pod):
            continue
        if (from_rfc3339(holder.created_at) or 0.0) < ended:
            yield ended


def _by_us(owner: WorkloadRecord, pod: PodRecord) -> bool:
    return "-" in pod.name.removeprefix(f"{owner.name}-")  # the controller's names end in five letters or digits


def _counted_since(owner: WorkloadRecord) -> float:
    """Since when the Job has its count of pods; long ago, where an older operator has set it."""
    text = owner.labels.get(labels.COUNTED_SINCE, "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _rested_at(view: RoleView, replica: Replica) -> float:
    """A trainer that fails by itself again and again rests before its next attempt, 10 s, doubling to 5 minutes: as
    long as the controller makes it wait for its first, so that the others that fail with it are seen to. What nodes,
    preemption and users take comes back at once."""
    before = {}
    for pod in view.others:
        ordinal = ordinal_of(pod)
        if ordinal is not None and ordinal[0] == replica.index and _failed_by_itself(pod):
            before[ordinal[1]] = pod
    last = before.get(replica.attempt - 1)
    ended = ended_at(last) if last is not None else None
    if ended is None:
        return 0.0
    failures = 0
    for _, pod in sorted(before.items(), reverse=True):
        if ran_long(pod):
            break
        failures += 1
    rest = rest_seconds(failures - 1, CRASHED_SECONDS) if failures else 0.0
    return ended + rest + HEAD_START_SECONDS


def _failed_by_itself(pod: PodRecord) -> bool:
    return pod.phase == "Failed" and diagnose(pod, "").cause == "application"
