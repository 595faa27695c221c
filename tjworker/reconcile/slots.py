"""Replica slots: the view of a role whose pods a ReplicaSet or a batch Job makes, under names that it alone chooses.

Slots have the ordinals 0 to n-1. Once a pod runs it gets the ordinal of its slot as a label (`replica-index`, with
`restart-attempt` of that slot), as PaddlePaddle EDL's initLabelOfPods does; when it dies, a pod without ordinal takes
its slot, as in traceLabelOfPods. The label is the memory. A slot's attempt is raised (in the status, before anything
else) when its pod has died; a pod of an older attempt is history, so that each death counts once, wherever a worker is
cut off.

A slot goes, in this order, to a pod that ended on it and has not been counted; one that lives on it; one that lives and
whose own ordinal is too high or doubled (after scaling down); one that is being deleted and not counted; one that ended
before it got an ordinal (it must get one to be counted); one that lives and has no ordinal yet. Why: docs/adr/0012.
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
    """The role's own pods, by what can become of them."""

    ended: list[PodRecord]
    live: list[PodRecord]
    going: list[PodRecord]


def view_slots(
    job: TrainingJob, role: Role, own: Iterable[PodRecord], observed: Observed, status: JobStatus
) -> RoleView:
    """`own`: every pod of the job (`own_pods`)."""
    attempts = status.attempts.roles.get(role.name, RoleAttempts())
    owner = find_owner(job, role, observed)
    mine = [p for p in own if p.owner_uid != job.uid and p.labels.get(labels.REPLICA_NAME) == role.name]
    completed = parse_indices(attempts.completed, role.replicas)
    failed = parse_indices(attempts.failed, role.replicas)
    free = [i for i in range(role.replicas) if i not in completed and i not in failed]
    slots, surplus = _fill(_sort(mine), attempts, free)
    misled = _misled(role, owner, status, completed, failed, mine)
    over = "" if owner is None or role.workload != "Job" or misled else owner.condition
    replicas = []
    for index in range(role.replicas):
        pod, attempt = slots.get(index), attempt_of(attempts, index)
        name = pod.name if pod is not None else f"{owner_name(job.name.name, role.name)}-{index}"
        final = index in completed or index in failed
        ended: State = "succeeded" if index in completed else "failed"
        state = ended if final else _state(role, pod, index, attempt, over, status)
        replicas.append(Replica(role.name, index, name, attempt, state, pod, final))
    placed = {p.name for p in (*slots.values(), *surplus)}
    others = tuple(p for p in mine if p.name not in placed)
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
    """This very job's ReplicaSet or batch Job of the role."""
    kind = observed.replicasets if role.workload == "ReplicaSet" else observed.jobs
    name = owner_name(job.name.name, role.name)
    return next((w for w in kind if w.name == name and w.owner_uid == job.uid), None)


def ordinal_of(pod: PodRecord) -> tuple[int, int] | None:
    """(ordinal, attempt) that the pod was given; None while it has none."""
    index = pod_index(pod)
    return None if index is None else (index, pod_attempt(pod))


def _sort(pods: Iterable[PodRecord]) -> _Pods:
    found = _Pods([], [], [])
    for pod in sorted(pods, key=lambda p: (p.phase != "Running", -pod_attempt(p), p.created_at, p.name)):
        if pod.phase in ENDED and not stopped(pod):
            found.ended.append(pod)
        elif pod.phase in ENDED or pod.deleted_at or pod.lost:
            found.going.append(pod)
        else:
            found.live.append(pod)
    return found


class _Slots:
    """Slots being filled, in the order that this module's docstring gives."""

    def __init__(self, attempts: RoleAttempts, free: Iterable[int]) -> None:
        self.taken: dict[int, PodRecord] = {}
        self._attempts = attempts
        self._free = set(free)

    def by_ordinal(self, pods: Iterable[PodRecord], *, outdated: bool) -> list[PodRecord]:
        """Each to the slot of its ordinal. Returns those that find it taken. `outdated`: also with an ordinal of an
        older attempt (the pod lives, and holds the slot until it is replaced)."""
        left = []
        for pod in pods:
            index, attempt = ordinal_of(pod) or (-1, 0)
            if index in self._free and (outdated or attempt >= attempt_of(self._attempts, index)):
                self._take(pod, index)
            else:
                left.append(pod)
        return left

    def lowest(self, pods: Iterable[PodRecord]) -> list[PodRecord]:
        """Each to the lowest free slot. Returns those that find none."""
        free = sorted(self._free, reverse=True)
        left = []
        for pod in pods:
            if free:
                self._take(pod, free.pop())
            else:
                left.append(pod)
        return left

    def _take(self, pod: PodRecord, index: int) -> None:
        self.taken[index] = pod
        self._free.discard(index)


def _fill(pods: _Pods, attempts: RoleAttempts, free: Iterable[int]) -> tuple[dict[int, PodRecord], list[PodRecord]]:
    """(the pod of each slot, the pods that live and find no slot)."""
    slots = _Slots(attempts, free)
    old, new = _by(pods.ended)
    slots.by_ordinal(old, outdated=False)
    known, fresh = _by(pods.live)
    surplus = slots.lowest(slots.by_ordinal(known, outdated=True))
    slots.by_ordinal(_by(pods.going)[0], outdated=False)
    slots.lowest(new)
    return slots.taken, [*surplus, *slots.lowest(fresh)]


def _by(pods: Iterable[PodRecord]) -> tuple[list[PodRecord], list[PodRecord]]:
    """(those with an ordinal, those without)."""
    known = [p for p in pods if ordinal_of(p) is not None]
    return known, [p for p in pods if ordinal_of(p) is None]


def _misled(
    role: Role,
    owner: WorkloadRecord | None,
    status: JobStatus,
    completed: frozenset[int],
    failed: frozenset[int],
    mine: Iterable[PodRecord],
) -> bool:
    """The controller of batch Jobs looks at its pods a second after the news (SyncJobBatchPeriod). One that is deleted
    and by then has ended with 0 is a success to it (`isPodFailed` of kubernetes v1.36 pkg/controller/job): it takes a
    work queue for empty, and of completions one for done. So successes that nobody has seen count for none; those of
    a Job that is complete only as far as pods that were asked to go, or were taken, may have been them."""
    if role.workload != "Job" or owner is None or not owner.succeeded:
        return False
    counts = status.restart_counts.get(role.name, RestartCounts())
    went = counts.user + counts.node + counts.preemption
    succeeded = [p for p in mine if p.phase == "Succeeded" and not stopped(p)]
    known = len(completed) + sum(pod_index(p) not in completed for p in succeeded)
    if role.edl_policy == "Never":
        return owner.condition == "Complete" and 0 < role.replicas - len(failed) - known <= went
    return known == 0 and (not owner.condition or owner.succeeded <= went)


def _state(role: Role, pod: PodRecord | None, index: int, attempt: int, over: str, status: JobStatus) -> State:
    """`over`: how the batch Job has ended; '' while it has not."""
    if over == "Complete":
        # A work queue is done when one trainer says so and the others have ended, however they did.
        return "succeeded"
    if over == "Failed":
        return "failed"
    if pod is None:
        return "missing"
    ordinal = ordinal_of(pod)
    if pod.phase in ENDED and ordinal is None:
        # It gets its ordinal in this pass, and is judged by it in the next. Until then nothing comes of it: a job that
        # runs is said to run, and one that does not is not.
        return "running" if status.phase == "Running" else "scheduled"
    state = state_of(pod, attempt if ordinal is not None and ordinal[0] == index else 0)
    if state == "running" and role.workload == "ReplicaSet" and not _serves(pod, status):
        return "scheduled"
    return state


def _serves(pod: PodRecord, status: JobStatus) -> bool:
    """Ready, as PaddlePaddle EDL's readyReplicas counts. Once the job has come to run, a server that is unready for a
    moment is no reason to say that it does not, as long as its containers run."""
    return pod.ready or (status.phase == "Running" and all(c.state == "running" for c in counted(pod)))
