"""The state of each replica of a role: the observed pods, compared with the attempts in the status. Pure.

Policies use a RoleView and never a raw list of pods, so that only this module decides what counts as "terminating",
"outdated" or "surplus". This module handles pods that the operator names; `slots` handles pods that a ReplicaSet or
batch Job names; `views` chooses between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from tjworker.api import labels
from tjworker.api.indices import MAX_INDEX, parse_indices, ungroup_indices
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import pod_name
from tjworker.api.observed import BY_KUBELET, PodRecord, WorkloadRecord
from tjworker.api.status import JobStatus, RoleAttempts
from tjworker.api.timefmt import unix_seconds
from tjworker.reconcile.failures import fails_in_part

State = Literal[
    "missing",  # no pod of this index
    "blocked",  # a pod of another job has the name, for example of a deleted job of the same name
    "outdated",  # its attempt is over: the pod is replaced
    "terminating",  # deleted from outside, also if it has already ended because of that
    "pending",  # no node yet
    "scheduled",  # a node, but no container runs
    "running",
    "lost",  # with its node: no kubelet will report on it again
    "succeeded",
    "failed",
]


class Replica(NamedTuple):
    """A tuple: a pass over fifty thousand takes 150 ms, and 170 if each is a dataclass."""

    role: str
    index: int  # type: ignore[assignment]  # hides tuple.index, which no caller needs
    name: str
    attempt: int
    """The attempt that the replica should be at. Its pod may be of an older one."""
    state: State
    pod: PodRecord | None = None
    final: bool = False
    """By the status, the replica has succeeded or finally failed in this attempt: it needs no pod any more."""


@dataclass(frozen=True)
class RoleView:
    role: Role
    replicas: tuple[Replica, ...]
    surplus: tuple[PodRecord, ...]
    """The job's pods whose index is not wanted any more, after the role was scaled down."""
    attempts: RoleAttempts
    owner: WorkloadRecord | None = None
    """The ReplicaSet or batch Job that keeps the pods; None if the operator keeps them, or if it does not exist."""
    misled: bool = False
    """The Job controller counted a deleted pod that exited with 0 as succeeded."""
    others: tuple[PodRecord, ...] = ()
    """The job's pods that hold no index any more: ended pods that were replaced, and pods that are being deleted."""
    ran: frozenset[int] = frozenset()
    """Indices whose pod has run in this attempt, by the status; empty while the job is Running."""
    made: frozenset[int] = frozenset()
    """Indices whose pod was created in this attempt and has not run, by the status; empty while the job is Running."""
    ever_ran: frozenset[int] = frozenset()
    """Indices whose pod has run in any attempt, by the status. Only for elastic roles."""
    main_container: str | None = None
    """`main_container` of the job."""

    @cached_property
    def _tally(self) -> Counter[State]:
        return Counter([r.state for r in self.replicas])

    def count(self, *states: State) -> int:
        return sum(self._tally[state] for state in states)

    def indices(self, state: State) -> frozenset[int]:
        return frozenset(r.index for r in self.replicas if r.state == state) if self._tally[state] else frozenset()

    @cached_property
    def rests_until(self) -> Mapping[int, int]:
        """Index -> when its rest is over, in Unix seconds, by the status."""
        return {
            index: until
            for time, indices in self.attempts.resting.items()
            if (until := unix_seconds(time)) is not None
            for index in parse_indices(indices, MAX_INDEX)
        }

    @cached_property
    def unmade_until(self) -> Mapping[int, int]:
        """`rests_until` of the indices whose pods vanish before they start."""
        if not self.attempts.vanished:
            return {}
        vanished = ungroup_indices(self.attempts.vanished, MAX_INDEX)
        return {index: until for index, until in self.rests_until.items() if index in vanished}

    def has_failed(self, pod: PodRecord) -> bool:
        """True if the pod has failed, or its main container if the role does not wait for the other containers."""
        return pod.phase == "Failed" or fails_in_part(self.role, pod, self.main_container)

    @cached_property
    def started(self) -> frozenset[int]:
        """Indices whose pod runs or has run, in any attempt. Only for elastic roles."""
        return self.ever_ran | {r.index for r in self.replicas if _has_started(r)}

    @property
    def complete(self) -> bool:
        """True if every replica that counts has succeeded. In an elastic role a replica beyond minReplicas that has
        never started does not count."""
        succeeded = self.indices("succeeded")
        if not succeeded or len(succeeded) == len(self.replicas) or not self.role.elastic:
            return bool(succeeded) and len(succeeded) == len(self.replicas)
        least, started = self.role.min_replicas or 0, self.started
        return all(r.index in succeeded or (r.index >= least and r.index not in started) for r in self.replicas)

    @property
    def settled(self) -> bool:
        """True if every replica has succeeded or finally failed."""
        return all(r.state == "succeeded" or (r.state == "failed" and r.final) for r in self.replicas)


def _has_started(replica: Replica) -> bool:
    if replica.final or replica.state in ("running", "succeeded"):
        return True
    return replica.pod is not None and not replica.pod.never_started


def ever_ran(role: Role, attempts: RoleAttempts, status: JobStatus) -> frozenset[int]:
    """See `RoleView.ever_ran`."""
    if not role.elastic:
        return frozenset()
    indices = parse_indices(attempts.started, role.replicas) | parse_indices(attempts.ran, role.replicas)
    old = status.replica_statuses.get(role.name)
    if status.phase == "Running" and old is not None:
        # A job that was Running had a pod for each index below the number that was desired then.
        indices |= frozenset(range(min(old.desired, role.replicas)))
    return indices


def attempt_of(attempts: RoleAttempts, index: int) -> int:
    """The present attempt of one replica: restarts of the whole role and of this pod."""
    return attempts.all + attempts.pods.get(str(index), 0)


def pod_attempt(pod: PodRecord) -> int:
    """The attempt from the pod's label; 0 if there is none."""
    text = pod.labels.get(labels.RESTART_ATTEMPT, "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def pod_index(pod: PodRecord) -> int | None:
    """The index from the pod's label; None if there is none."""
    text = pod.labels.get(labels.REPLICA_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else None


def view_named(
    job: TrainingJob, role: Role, own: Mapping[str, PodRecord], taken: set[str], status: JobStatus
) -> RoleView:
    """The view of a role whose pods the operator creates, with fixed names. `own`: the job's pods by name. `taken`:
    names of pods of other jobs."""
    attempts = status.attempts.roles.get(role.name, RoleAttempts())
    completed = parse_indices(attempts.completed, role.replicas)
    failed = parse_indices(attempts.failed, role.replicas)
    replicas = []
    for index in range(role.replicas):
        name = pod_name(job.name.name, role.name, index)
        attempt = attempt_of(attempts, index) if attempts.pods else attempts.all
        pod = own.get(name)
        if index in completed:
            replicas.append(Replica(role.name, index, name, attempt, "succeeded", pod, final=True))
        elif index in failed:
            replicas.append(Replica(role.name, index, name, attempt, "failed", pod, final=True))
        elif pod is None:
            replicas.append(Replica(role.name, index, name, attempt, "blocked" if name in taken else "missing"))
        else:
            state = state_of(pod, attempt)
            if state == "succeeded" and pod.disruption == BY_KUBELET:
                # The kubelet asked the program to stop, and the program exited with 0. Its work is not done. (Where a
                # controller keeps the pods, a batch Job has counted this success, and no operator can take it back.)
                state = "failed"
            replicas.append(Replica(role.name, index, name, attempt, state, pod))
    role_pods = [p for p in own.values() if p.labels.get(labels.REPLICA_NAME) == role.name]
    wanted = {r.name for r in replicas} if role_pods else set()
    surplus = tuple(p for p in role_pods if p.name not in wanted)
    ran, made = parse_indices(attempts.ran, role.replicas), parse_indices(attempts.made, role.replicas)
    return RoleView(
        role,
        tuple(replicas),
        surplus,
        attempts,
        ran=ran,
        made=made,
        ever_ran=ever_ran(role, attempts, status),
        main_container=job.main_container,
    )


ENDED: Mapping[str, State] = {"Succeeded": "succeeded", "Failed": "failed"}


def state_of(pod: PodRecord, attempt: int) -> State:
    """The state of a replica with this pod. `attempt`: the attempt at which the replica should be."""
    if pod_attempt(pod) < attempt:
        return "outdated"
    if pod.phase in ENDED:
        return "terminating" if stopped(pod) else ENDED[pod.phase]
    if pod.lost:
        return "lost"
    if pod.deleted_at is not None:
        return "terminating"
    if pod.phase in ("Running", "Unknown"):
        return "running"
    return "scheduled" if pod.node else "pending"


def stopped(pod: PodRecord) -> bool:
    """True if the pod ended because it was deleted. Such an end counts neither as a success nor as a failure: a trainer
    that is asked to stop saves its state and exits with 0 or 143."""
    if pod.was_told_to_go or pod.deletion_asked_at is None:
        # The watcher saw the deletion before the end.
        return pod.was_told_to_go
    # Pod garbage collection marks a pod without a node as Failed when it deletes it (`gcUnscheduledTerminating`). The
    # kubelet does the same with a pod whose containers have not started, and gives no reason. A pod that it rejects or
    # evicts has a reason.
    if not pod.node or (pod.containers and pod.never_started and not pod.reason):
        return True
    # Otherwise compare the times. The node's clock, which gives the end, may be behind the API server's clock, which
    # gives the deletion. A pod deleted before it started has no container with an end.
    ends = [c.finished_at for c in pod.containers if c.state == "terminated" and not c.init]
    last = max((at for at in ends if at is not None), default=None)
    return last is not None and last >= pod.deletion_asked_at
