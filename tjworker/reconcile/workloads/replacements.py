"""Pods that the operator creates for a batch Job while the Job's controller waits. Pure.

After each pod that fails, is deleted or is lost, the controller of batch Jobs waits longer before it creates the next:
10 s, 20 s, 40 s, up to ten minutes (kubernetes v1.36 `pkg/controller/job/backoff_utils.go`). But it only counts the
Job's active pods, and does not ask which client created them. So the operator creates a replacement as the controller
would, owned by the Job and with its finalizer. The pod has its ordinal from the start. Slot and attempt fix its name;
if a pod of another slot has that name, so does that pod's UID. So a second create is harmless (409). docs/adr/0017 has
the reasons.

The operator creates pods only if the Job's own status shows fewer than it wants: its controller has seen the loss then,
and waits. It creates none for a work queue that a trainer has found empty, and no more than the open completions of a
Job that has them: the controller would delete them. If both create a pod at the same moment, the controller deletes the
surplus one. Neither it nor `policies.controller_managed` counts that as a failure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tjworker.api import labels
from tjworker.api.observed import ENDED_PHASES, PodRecord, WorkloadRecord
from tjworker.reconcile.failures import diagnose, ended_at
from tjworker.reconcile.replicas import Replica, RoleView, stopped
from tjworker.reconcile.rests import CRASHED_SECONDS, ran_long, rest_seconds
from tjworker.reconcile.slots import ordinal_of

HEAD_START_SECONDS = 2.0
"""The controller gets this time after a change of the count. A Job has no observedGeneration to confirm the change."""
_SUFFIX_LENGTH = 5
SILENT_SECONDS = 3.0
"""A controller that has counted failures, lacks pods and has created none for this long is waiting."""


@dataclass(frozen=True, slots=True)
class Replacements:
    due: tuple[tuple[str, Replica], ...] = ()
    """(pod name, slot) of each pod to be created now."""
    next_seconds: float | None = None
    """Until the next pod is due."""


def find_replacements(view: RoleView, wanted: int, now: float) -> Replacements:
    """The replacements that are due. `wanted`: how many pods the batch Job must keep."""
    owner = view.owner
    if owner is None or owner.deleted_at is not None or owner.condition:
        return Replacements()
    if owner.desired != wanted:
        # This pass patches the count, and the controller goes first. The echo of an own write begins no pass.
        waits_long = owner.failed or view.attempts.pods
        return Replacements(next_seconds=SILENT_SECONDS if waits_long and wanted > owner.desired else None)
    pods = [*view.surplus, *view.others, *(r.pod for r in view.replicas if r.pod is not None)]
    owned = [p for p in pods if p.owner_uid == owner.uid]
    active = sum(p.deleted_at is None and p.phase not in ENDED_PHASES for p in owned)
    room = owner.desired - (owner.succeeded if view.role.edl_policy == "Never" else 0) - active
    # If the Job reports more active pods than are observed, its controller has not seen the loss yet, or the operator
    # has not seen its pods.
    if room <= 0 or active < owner.active or _is_empty_queue(view, owner, owned):
        return Replacements()
    without_loss = _seconds_without_loss(view, owner, owned, now)
    waits = [(_seconds_left(view, r, owner, without_loss, now), r) for r in view.replicas if r.state == "missing"]
    due = [r for seconds, r in waits if seconds is not None and seconds <= 0][:room]
    later = [seconds for seconds, _ in waits if seconds is not None and seconds > 0]
    held = {pod.name: pod.uid for pod in pods}
    return Replacements(tuple((_name(owner, r, held), r) for r in due), min(later, default=None))


def _name(owner: WorkloadRecord, replica: Replica, held: Mapping[str, str]) -> str:
    # A pod keeps its name when it takes another slot, so the name may be taken. The holder's UID then fixes the next
    # one, so that a second create is harmless there, too.
    name = f"{owner.name}-{replica.index}-{replica.attempt}"
    while name in held:
        name = f"{name}-{hashlib.sha256(held[name].encode()).hexdigest()[:_SUFFIX_LENGTH]}"
    return name


def _is_empty_queue(view: RoleView, owner: WorkloadRecord, owned: Iterable[PodRecord]) -> bool:
    """True for a work queue in which a trainer has succeeded: the Job is complete when the other trainers end."""
    if view.role.edl_policy == "Never" or view.misled:
        return False
    return bool(owner.succeeded) or any(p.phase == "Succeeded" and not stopped(p) for p in owned)


def _seconds_left(
    view: RoleView, replica: Replica, owner: WorkloadRecord, without_loss: float | None, now: float
) -> float | None:
    """Seconds until the operator creates this slot's pod; None if the controller creates it."""
    if str(replica.index) not in view.attempts.pods:
        return without_loss
    head_start = _counted_since(owner) + HEAD_START_SECONDS
    return max(head_start, _rested_at(view, replica), view.unmade_until.get(replica.index, 0)) - now


def _seconds_without_loss(
    view: RoleView, owner: WorkloadRecord, owned: Iterable[PodRecord], now: float
) -> float | None:
    """`_seconds_left` of slots that have lost no pod."""
    # After scaling up or resuming, the controller may still wait because of earlier failures, or create no more pods.
    if not owner.failed and not owner.succeeded:
        return None
    last = max((p.created_at or 0 for p in owned if not _is_replacement(owner, p)), default=0)
    # A pod without ordinal may have taken the slot of a failed one. Then this slot rests for it, as after a first
    # failure.
    rested = max(_failures_passed_on(view), default=0.0) + CRASHED_SECONDS + HEAD_START_SECONDS
    return max(last + SILENT_SECONDS, _counted_since(owner) + SILENT_SECONDS, rested) - now


def _failures_passed_on(view: RoleView) -> Iterator[float]:
    """The times of failures of trainers whose slot now has an older pod, in Unix seconds."""
    holders = {replica.index: replica.pod for replica in view.replicas}
    for pod in view.others:
        ordinal, ended = ordinal_of(pod), ended_at(pod)
        holder = holders.get(ordinal[0]) if ordinal is not None else None
        if holder is None or ended is None or not _failed_by_itself(pod):
            continue
        if (holder.created_at or 0) < ended:
            yield ended


def _is_replacement(owner: WorkloadRecord, pod: PodRecord) -> bool:
    # The names that the controller gives end in five letters or digits.
    return "-" in pod.name.removeprefix(f"{owner.name}-")


def _counted_since(owner: WorkloadRecord) -> float:
    """When the Job got its count of pods, in Unix seconds; 0 if an older operator set it."""
    text = owner.labels.get(labels.COUNTED_SINCE, "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _rested_at(view: RoleView, replica: Replica) -> float:
    """When the slot's rest after failures of the program is over, in Unix seconds; 0 if there is no rest. Rests take
    10 s, doubling to 5 minutes. Losses by nodes, preemption and users cause none."""
    # The first rest is as long as the controller's first wait, so that the operator sees all pods that fail together.
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
