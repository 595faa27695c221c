"""Replica slots: the view of a role whose pods a ReplicaSet or a batch Job creates, under names of its own choice.

Slots have the ordinals 0 to n-1. A pod that runs gets the ordinal of its slot as the label `replica-index`, and the
slot's attempt as `restart-attempt`, as in PaddlePaddle EDL's initLabelOfPods. When the pod dies, a pod without ordinal
takes the slot, as in traceLabelOfPods. The labels are the only memory. After a death the status raises the slot's
attempt before any other write. A pod of an older attempt is history. So each death counts once, wherever a worker is
interrupted.

A slot takes the first pod of this list (docs/adr/0012 has the reasons):

1. a pod that ended in this slot, and whose death is not counted yet
2. a live pod with this slot's ordinal
3. a live pod whose ordinal is too high, or held by another pod: the role was scaled down
4. a pod of this slot that is being deleted, and is not counted yet
5. a pod that ended before it got an ordinal: it needs one to be counted
6. a live pod without an ordinal

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tjworker.api import labels
from tjworker.api.indices import parse_indices
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import owner_name
from tjworker.api.observed import Observed, PodRecord, WorkloadRecord
from tjworker.api.status import JobStatus, RestartCounts, RoleAttempts
from tjworker.reconcile.failures import counted
from tjworker.reconcile.replicas import (
    ENDED,
    Replica,
    RoleView,
    State,
    attempt_of,
    ever_ran,
    pod_attempt,
    pod_index,
    state_of,
    stopped,
)


@dataclass(frozen=True, slots=True)
class _Pods:
    """The role's pods, sorted by how they may hold a slot."""

    ended: list[PodRecord]
    """Ended by themselves."""
    live: list[PodRecord]
    going: list[PodRecord]
    """Being deleted, ended because of a deletion, or lost with their node."""


def view_slots(
    job: TrainingJob, role: Role, own: Iterable[PodRecord], observed: Observed, status: JobStatus
) -> RoleView:
    """The view of one role. `own`: every pod of the job (`own_pods`)."""
    attempts = status.attempts.roles.get(role.name, RoleAttempts())
    owner = find_owner(job, role, observed)
    role_pods = [p for p in own if p.owner_uid != job.uid and p.labels.get(labels.REPLICA_NAME) == role.name]
    completed = parse_indices(attempts.completed, role.replicas)
    failed = parse_indices(attempts.failed, role.replicas)
    free = [i for i in range(role.replicas) if i not in completed and i not in failed]
    slots, surplus = _fill_slots(_sort_pods(role_pods), attempts, free)
    misled = _is_misled(role, owner, status, completed, failed, role_pods)
    over = "" if owner is None or role.workload != "Job" or misled else owner.condition
    replicas = []
    for index in range(role.replicas):
        pod, attempt = slots.get(index), attempt_of(attempts, index)
        name = pod.name if pod is not None else f"{owner_name(job.name.name, role.name)}-{index}"
        # The status decides, not the pod: a completed replica's pod may be gone, and must not be missed.
        final = index in completed or index in failed
        ended: State = "succeeded" if index in completed else "failed"
        state = ended if final else _slot_state(role, pod, index, attempt, over, status)
        replicas.append(Replica(role.name, index, name, attempt, state, pod, final))
    placed = {p.name for p in (*slots.values(), *surplus)}
    others = tuple(p for p in role_pods if p.name not in placed)
    made = parse_indices(attempts.made, role.replicas)
    return RoleView(
        role,
        tuple(replicas),
        tuple(surplus),
        attempts,
        owner,
        misled,
        others,
        made=made,
        ever_ran=ever_ran(role, attempts, status),
    )


def find_owner(job: TrainingJob, role: Role, observed: Observed) -> WorkloadRecord | None:
    """The role's ReplicaSet or batch Job. One that an earlier job of the same name owns does not count."""
    kind = observed.replicasets if role.workload == "ReplicaSet" else observed.jobs
    name = owner_name(job.name.name, role.name)
    return next((w for w in kind if w.name == name and w.owner_uid == job.uid), None)


def ordinal_of(pod: PodRecord) -> tuple[int, int] | None:
    """(ordinal, attempt) from the pod's labels; None if it has no ordinal yet."""
    index = pod_index(pod)
    return None if index is None else (index, pod_attempt(pod))


def _sort_pods(pods: Iterable[PodRecord]) -> _Pods:
    # Running pods first, so that no starting pod takes the slot of one that runs.
    found = _Pods([], [], [])
    for pod in sorted(pods, key=lambda p: (p.phase != "Running", -pod_attempt(p), p.created_at or 0, p.name)):
        if pod.phase in ENDED and not stopped(pod):
            found.ended.append(pod)
        elif pod.phase in ENDED or pod.deleted_at is not None or pod.lost:
            found.going.append(pod)
        else:
            found.live.append(pod)
    return found


class _Slots:
    """The slots that `_fill_slots` fills."""

    def __init__(self, attempts: RoleAttempts, free: Iterable[int]) -> None:
        self.taken: dict[int, PodRecord] = {}
        self._attempts = attempts
        self._free = set(free)

    def by_ordinal(self, pods: Iterable[PodRecord], *, outdated: bool) -> list[PodRecord]:
        """Put each pod into the slot of its ordinal. Returns the pods whose slot is not free. `outdated`: take pods of
        an older attempt, too: a live pod holds the slot until it is replaced."""
        unplaced = []
        for pod in pods:
            index, attempt = ordinal_of(pod) or (-1, 0)
            if index in self._free and (outdated or attempt >= attempt_of(self._attempts, index)):
                self._take(pod, index)
            else:
                unplaced.append(pod)
        return unplaced

    def lowest(self, pods: Iterable[PodRecord]) -> list[PodRecord]:
        """Put each pod into the lowest free slot. Returns the pods for which no slot is left."""
        free = sorted(self._free, reverse=True)
        unplaced = []
        for pod in pods:
            if free:
                self._take(pod, free.pop())
            else:
                unplaced.append(pod)
        return unplaced

    def _take(self, pod: PodRecord, index: int) -> None:
        self.taken[index] = pod
        self._free.discard(index)


def _fill_slots(
    pods: _Pods, attempts: RoleAttempts, free: Iterable[int]
) -> tuple[dict[int, PodRecord], list[PodRecord]]:
    """(slot -> pod, live pods without a slot). The order of the calls is that of this module's docstring."""
    slots = _Slots(attempts, free)
    ended_with, ended_without = _split_by_ordinal(pods.ended)
    slots.by_ordinal(ended_with, outdated=False)
    live_with, live_without = _split_by_ordinal(pods.live)
    surplus = slots.lowest(slots.by_ordinal(live_with, outdated=True))
    slots.by_ordinal(_split_by_ordinal(pods.going)[0], outdated=False)
    slots.lowest(ended_without)
    return slots.taken, [*surplus, *slots.lowest(live_without)]


def _split_by_ordinal(pods: Iterable[PodRecord]) -> tuple[list[PodRecord], list[PodRecord]]:
    """(pods with an ordinal, pods without)."""
    known = [p for p in pods if ordinal_of(p) is not None]
    return known, [p for p in pods if ordinal_of(p) is None]


def _is_misled(
    role: Role,
    owner: WorkloadRecord | None,
    status: JobStatus,
    completed: frozenset[int],
    failed: frozenset[int],
    role_pods: Iterable[PodRecord],
) -> bool:
    """True if the Job controller counted a deleted pod as a success.

    It syncs a Job one second after an event (SyncJobBatchPeriod). A deleted pod that has exited with 0 by then counts
    as succeeded (`isPodFailed` of kubernetes v1.36 pkg/controller/job)."""
    if role.workload != "Job" or owner is None or not owner.succeeded:
        return False
    counts = status.restart_counts.get(role.name, RestartCounts())
    went = counts.user + counts.node + counts.preemption
    succeeded = [p for p in role_pods if p.phase == "Succeeded" and not stopped(p)]
    known = len(completed) + sum(pod_index(p) not in completed for p in succeeded)
    if role.edl_policy == "Never":
        # With completions: deleted or lost pods may account for every success whose pod was not seen.
        return owner.condition == "Complete" and 0 < role.replicas - len(failed) - known <= went
    # A work queue gets no more pods after its first success, so one false success misleads.
    return known == 0 and (not owner.condition or owner.succeeded <= went)


def _slot_state(role: Role, pod: PodRecord | None, index: int, attempt: int, over: str, status: JobStatus) -> State:
    """`over`: the condition with which the batch Job has ended; '' while it has not."""
    if over == "Complete":
        # A work queue is done when one trainer has exited with 0 and the others have ended, with any exit code.
        return "succeeded"
    if over == "Failed":
        return "failed"
    if pod is None:
        return "missing"
    ordinal = ordinal_of(pod)
    if pod.phase in ENDED and ordinal is None:
        # This pass gives the pod its ordinal, and the next pass judges it. Until then the state must not change the
        # job's phase.
        return "running" if status.phase == "Running" else "scheduled"
    state = state_of(pod, attempt if ordinal is not None and ordinal[0] == index else 0)
    if state == "running" and role.workload == "ReplicaSet" and not _is_serving(pod, status):
        return "scheduled"
    return state


def _is_serving(pod: PodRecord, status: JobStatus) -> bool:
    """True if the server is ready, as in PaddlePaddle EDL's readyReplicas."""
    # A server that is unready for a moment must not take a Running job out of that phase.
    return pod.ready or (status.phase == "Running" and all(c.state == "running" for c in counted(pod)))
