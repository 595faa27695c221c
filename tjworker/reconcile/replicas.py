"""What each replica of a role is doing: the observed pods, read against the attempts in the status. Pure.

Every policy looks at a RoleView and never at a raw list of pods, so that what counts as "terminating", "outdated" or
"surplus" is decided here and nowhere else. This file knows the pods that the operator names itself; `slots` those that
a ReplicaSet or batch Job names; `views` asks the right one.
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
from tjworker.api.observed import PodRecord, WorkloadRecord
from tjworker.api.status import JobStatus, RoleAttempts
from tjworker.reconcile.failures import fails_in_part

State = Literal[
    "missing",  # no pod of this index
    "blocked",  # the name is taken by a pod that is not this job's, for example of a deleted job of the same name
    "outdated",  # its attempt is over: it goes, a new pod comes
    "terminating",  # deleted from outside (also when that has already made it end)
    "pending",  # no node yet
    "scheduled",  # a node, and no container up
    "running",
    "lost",  # with its node: no kubelet will ever report of it again
    "succeeded",
    "failed",
]


class Replica(NamedTuple):
    """A tuple, as a pass may look at fifty thousand of them: it is made in a quarter of a dataclass' time."""

    role: str
    index: int  # type: ignore[assignment]  # nobody looks a value up in it
    name: str
    attempt: int
    """The attempt this replica should be at; its pod's may be older."""
    state: State
    pod: PodRecord | None = None
    final: bool = False
    """Succeeded or failed for good in this attempt, as the status says: it needs no pod any more."""


@dataclass(frozen=True)
class RoleView:
    role: Role
    replicas: tuple[Replica, ...]
    surplus: tuple[PodRecord, ...]
    """Own pods whose index is not wanted: after scaling down."""
    attempts: RoleAttempts
    owner: WorkloadRecord | None = None
    """The ReplicaSet or batch Job that keeps the pods; None where the operator does so itself, or while there is
    none."""
    misled: bool = False
    """Its batch Job has counted a pod that was asked to go, and went with 0, as a success."""
    others: tuple[PodRecord, ...] = ()
    """Own pods that hold no index any more: ended ones whose place another has taken, those on their way out."""
    ran: frozenset[int] = frozenset()
    """Indices whose pod the status has seen run in this attempt; empty while the job is Running."""
    made: frozenset[int] = frozenset()
    """Indices whose pod has been made in this attempt and has not been seen to run; empty likewise."""
    ever_ran: frozenset[int] = frozenset()
    """Indices whose pod the status has seen run in any attempt; those of an elastic role alone."""
    main_container: str | None = None
    """As of the job."""

    @cached_property
    def _tally(self) -> Counter[State]:
        return Counter([r.state for r in self.replicas])

    def count(self, *states: State) -> int:
        return sum(self._tally[state] for state in states)

    def indices(self, state: State) -> frozenset[int]:
        return frozenset(r.index for r in self.replicas if r.state == state) if self._tally[state] else frozenset()

    @cached_property
    def unmade_until(self) -> Mapping[int, str]:
        """Until when an index rests whose pods vanish before they start."""
        if not self.attempts.vanished:
            return {}
        vanished = ungroup_indices(self.attempts.vanished, MAX_INDEX)
        return {i: until for i, until in ungroup_indices(self.attempts.resting, MAX_INDEX).items() if i in vanished}

    def has_failed(self, pod: PodRecord) -> bool:
        """The pod has failed; or its main container has, where the role does not wait for the others to end."""
        return pod.phase == "Failed" or fails_in_part(self.role, pod, self.main_container)

    @cached_property
    def started(self) -> frozenset[int]:
        """Of an elastic role: indices whose pod runs or has run, in any attempt."""
        return self.ever_ran | {r.index for r in self.replicas if _has_started(r)}

    @property
    def complete(self) -> bool:
        """Every replica that counts has succeeded. A surplus replica does not count: one beyond the desired number,
        which is not in `replicas`, and in an elastic role one beyond minReplicas that has never started."""
        succeeded = self.indices("succeeded")
        if not succeeded or len(succeeded) == len(self.replicas) or not self.role.elastic:
            return bool(succeeded) and len(succeeded) == len(self.replicas)
        least, started = self.role.min_replicas or 0, self.started
        return all(r.index in succeeded or (r.index >= least and r.index not in started) for r in self.replicas)

    @property
    def settled(self) -> bool:
        """Every replica has succeeded or failed for good."""
        return all(r.state == "succeeded" or (r.state == "failed" and r.final) for r in self.replicas)


def _has_started(replica: Replica) -> bool:
    if replica.final or replica.state in ("running", "succeeded"):
        return True
    return replica.pod is not None and not replica.pod.never_started


def ever_ran(role: Role, attempts: RoleAttempts, status: JobStatus) -> frozenset[int]:
    """See `RoleView.ever_ran`. A job that was Running had a pod for each index below what was desired then."""
    if not role.elastic:
        return frozenset()
    found = parse_indices(attempts.started, role.replicas) | parse_indices(attempts.ran, role.replicas)
    old = status.replica_statuses.get(role.name)
    if status.phase == "Running" and old is not None:
        found |= frozenset(range(min(old.desired, role.replicas)))
    return found


def attempt_of(attempts: RoleAttempts, index: int) -> int:
    return attempts.all + attempts.pods.get(str(index), 0)


def pod_attempt(pod: PodRecord) -> int:
    text = pod.labels.get(labels.RESTART_ATTEMPT, "0")
    return int(text) if text.isascii() and text.isdigit() else 0


def pod_index(pod: PodRecord) -> int | None:
    text = pod.labels.get(labels.REPLICA_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else None


def view_named(
    job: TrainingJob, role: Role, own: Mapping[str, PodRecord], taken: set[str], status: JobStatus
) -> RoleView:
    """Of a role whose pods the operator makes itself, each by its fixed name. `own`: the job's pods by name; `taken`:
    names of pods that are not its own."""
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
            replicas.append(Replica(role.name, index, name, attempt, state_of(pod, attempt), pod))
    mine = [p for p in own.values() if p.labels.get(labels.REPLICA_NAME) == role.name]
    wanted = {r.name for r in replicas} if mine else set()
    surplus = tuple(p for p in mine if p.name not in wanted)
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
    if pod_attempt(pod) < attempt:
        return "outdated"
    if pod.phase in ENDED:
        return "terminating" if stopped(pod) else ENDED[pod.phase]
    if pod.lost:
        return "lost"
    if pod.deleted_at:
        return "terminating"
    if pod.phase in ("Running", "Unknown"):
        return "running"
    return "scheduled" if pod.node else "pending"


def stopped(pod: PodRecord) -> bool:
    """It ended because it was deleted. A trainer that is told to go saves its state and exits, with 0 or with 143:
    neither is a success nor a failure of its own, whether we look before it has ended or after.

    Whoever has seen it told to go knows. A pod that had not started by then says of no container when it ended. One
    that no node has taken runs nothing and is granted no grace: pod garbage collection calls it Failed as it takes it
    away (`gcUnscheduledTerminating`). So does the kubelet with one of which nothing has run yet, without a reason; one
    that it turns away or evicts has a reason. Else times tell, though the node's clock, which says when it ended, may
    be behind the API server's, which says when it was asked to go."""
    if pod.was_told_to_go or not pod.deletion_asked_at:
        return pod.was_told_to_go
    if not pod.node or (pod.containers and pod.never_started and not pod.reason):
        return True
    ended = [c.finished_at for c in pod.containers if c.state == "terminated" and not c.init and c.finished_at]
    return bool(ended) and max(ended) >= pod.deletion_asked_at
