"""What the users of other operators' kinds read in a status, moment by moment of a life: conditions with their reasons,
and what becomes of a job that another operator has had. As training-operator (`pkg/util/status.go`) and KubeDL write
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.guests import GUESTS, KIND_OF
from tests.unit.tjworker.api.guest_cases import Json, manifest, read, role
from tjworker.api.kinds import KNOWN_KINDS, parse
from tjworker.api.status import Condition, JobStatus, ReplicaStatus
from tjworker.base import GroupResource

Ours = tuple[str, str, int, str]
"""Type, status, when it last changed, reason."""


@dataclass(frozen=True)
class Moment:
    ours: tuple[Ours, ...]
    theirs: tuple[str, ...]
    """In their order, of which the column State shows the last: type, status, reason (`*` for the kind's prefix) and
    when."""


CREATED: Ours = ("Created", "True", 1, "Accepted")
MOMENTS: dict[str, Moment] = {
    "nothing is known yet": Moment((), ()),
    "it is accepted": Moment((CREATED,), ("Created True *Created 1",)),
    "it waits for a node: that is told in the field operator alone": Moment(
        (CREATED, ("Running", "False", 2, "Unschedulable")), ("Created True *Created 1",)
    ),
    "it runs": Moment(
        (CREATED, ("Running", "True", 3, "AllRunning")), ("Created True *Created 1", "Running True *Running 3")
    ),
    "it restarts: Running is not told beside that": Moment(
        (CREATED, ("Running", "False", 4, "Restarting"), ("Restarting", "True", 4, "PodFailed")),
        ("Created True *Created 1", "Restarting True *Restarting 4"),
    ),
    "it has succeeded": Moment(
        (CREATED, ("Running", "False", 6, "Ended"), ("Succeeded", "True", 6, "Completed")),
        ("Created True *Created 1", "Running False *Running 6", "Succeeded True *Succeeded 6"),
    ),
    "it has failed": Moment(
        (CREATED, ("Running", "False", 6, "Ended"), ("Failed", "True", 7, "PodFailed")),
        ("Created True *Created 1", "Running False *Running 6", "Failed True *Failed 7"),
    ),
    "it has failed after a restart that was over": Moment(
        (
            CREATED,
            ("Running", "False", 6, "Ended"),
            ("Restarting", "False", 5, "Restarted"),
            ("Failed", "True", 6, "BackoffLimitExceeded"),
        ),
        ("Created True *Created 1", "Running False *Running 6", "Failed True *Failed 6"),
    ),
    "it is suspended before it has run": Moment(
        (CREATED, ("Suspended", "True", 1, "Suspended")), ("Created True *Created 1", "Suspended True *Suspended 1")
    ),
    "it runs after it was suspended": Moment(
        (CREATED, ("Running", "True", 6, "AllRunning"), ("Suspended", "False", 5, "Resumed")),
        ("Created True *Created 1", "Suspended False *Resumed 5", "Running True *Running 6"),
    ),
    "its spec is wrong": Moment(
        (CREATED, ("Failed", "True", 2, "InvalidSpec")), ("Created True *Created 1", "Failed True *FailedValidation 2")
    ),
    "what their operators have no word for is in our own status alone": Moment(
        (
            CREATED,
            ("Running", "True", 3, "AllRunning"),
            ("Scaling", "True", 4, "Scaling"),
            ("Stalled", "True", 4, "NoProgress"),
            ("TensorBoard", "True", 4, "Ready"),
        ),
        ("Created True *Created 1", "Running True *Running 3"),
    ),
}


def at(second: int) -> str:
    return f"2026-01-01T00:00:0{second}Z"


def status_of(ours: tuple[Ours, ...], **more: Any) -> JobStatus:
    conditions = tuple(
        Condition(type=type_, status=status, last_transition_time=at(when), reason=reason, message=f"{type_}: said")
        for type_, status, when, reason in ours  # type: ignore[call-arg, arg-type, unused-ignore]
    )
    return JobStatus(conditions=conditions, **more)


def written(kind: GroupResource, status: JobStatus) -> Json:
    job = read(kind, {name: role(n) for name, n in GUESTS[kind].items()})
    return KNOWN_KINDS[kind].written_status(job, status)


@pytest.mark.parametrize("kind", GUESTS)
def test_the_conditions_of_each_moment(kind: GroupResource) -> None:
    of_kubeflow = KIND_OF[kind].group == "kubeflow.org"
    prefix = KIND_OF[kind].kind if of_kubeflow else "Job"
    for sentence, moment in MOMENTS.items():
        told = written(kind, status_of(moment.ours))["conditions"]
        found = tuple(f"{c['type']} {c['status']} {c['reason']} {int(c['lastTransitionTime'][-3:-1])}" for c in told)
        assert found == tuple(one.replace("*", prefix) for one in moment.theirs), sentence
        assert all(c["lastUpdateTime"] == c["lastTransitionTime"] for c in told)


@pytest.mark.parametrize("phase", ["Running", "Succeed", "Failed"])
def test_the_workers_of_kubeflows_mpijob_are_not_counted_once_it_has_ended(phase: str) -> None:
    for kind in GUESTS:
        of_mpi = kind == GroupResource("mpijobs.kubeflow.org")
        role_name = "Worker" if of_mpi else next(iter(GUESTS[kind]))
        counts = {role_name: ReplicaStatus(desired=4, active=2, succeeded=1)}
        told = written(kind, status_of((), phase=phase, replica_statuses=counts))["replicaStatuses"]
        want = {} if of_mpi and phase != "Running" else {"active": 2, "succeeded": 1}
        assert {name: value for name, value in told[role_name].items() if name != "selector"} == want, kind


@dataclass(frozen=True)
class Left:
    """A status that another operator has left behind, and what becomes of the job here."""

    true: tuple[str, ...] = ()
    """Types of its conditions that are True."""
    false: tuple[str, ...] = ()
    active: int | None = None
    """Of its first role, where there are `replicaStatuses`."""
    started: bool = False
    """It has a `startTime`."""
    want: str = ""
    """The phase in which the job has ended, `refused`, or nothing: it is taken over."""


ELSEWHERE: dict[str, Left] = {
    "no condition": Left(),
    "a condition that is not true": Left(false=("Created",)),
    "accepted, and stopped before a pod was made (onOwnerCreateFunc)": Left(("Created",)),
    "accepted, and its pods wait for nodes: replicaStatuses are there": Left(("Created",), active=0, want="refused"),
    "accepted, and started": Left(("Created",), started=True, want="refused"),
    "created suspended, in Kueue's queue (ReconcileJobs)": Left(("Created", "Suspended")),
    "evicted by Kueue: its pods are deleted": Left(("Created", "Suspended"), ("Running",), 0, started=True),
    "evicted by Kueue, and a pod still counts": Left(("Created", "Suspended"), ("Running",), 1, want="refused"),
    "resumed, and no pod runs yet": Left(("Created",), ("Suspended", "Running"), 0, True, "refused"),
    "it runs": Left(("Created", "Running"), (), 2, True, "refused"),
    "it runs, by its condition alone (an XDLJob of KubeDL, MPIJob v1)": Left(("Created", "Running"), want="refused"),
    "it restarts: others of its pods may run": Left(("Created", "Restarting"), want="refused"),
    "a worker runs, the master not yet": Left(("Created",), active=1, want="refused"),
    "it has succeeded": Left(("Created", "Succeeded"), ("Running",), 0, True, "Succeed"),
    "it has failed": Left(("Created", "Failed"), ("Running",), 0, True, "Failed"),
    "it has failed, and its pods were left to run": Left(("Created", "Failed"), ("Running",), 2, True, "Failed"),
    "it has succeeded after a failure that was taken back": Left(("Created", "Succeeded"), ("Failed",), want="Succeed"),
    "both ends": Left(("Created", "Succeeded", "Failed"), want="Failed"),
}
"""By training-operator 1.9 (common/job.go, core/status.go), KubeDL 0.5 (job_controller) and mpi-operator 0.6."""


@pytest.mark.parametrize("kind", GUESTS)
def test_what_becomes_of_a_job_that_another_operator_has_had(kind: GroupResource) -> None:
    raw = manifest(kind, {name: role(n) for name, n in GUESTS[kind].items()})
    for sentence, left in ELSEWHERE.items():
        told = [{"type": t, "status": "True"} for t in left.true] + [{"type": t, "status": "False"} for t in left.false]
        status: Json = {"conditions": told}
        if left.started:
            status["startTime"] = at(4)
        if left.want in ("Succeed", "Failed"):
            status["completionTime"] = at(5)
        if left.active is not None:
            status["replicaStatuses"] = {next(iter(GUESTS[kind])): {"active": left.active} if left.active else {}}
        job = parse(kind, {**raw, "status": status})
        errors = "; ".join(map(str, getattr(job, "errors", ())))
        assert ("another operator has begun this job" in errors) is (left.want == "refused"), sentence
        if left.want != "refused":
            ended = at(5) if left.want else None
            assert (job.status.phase, job.status.completion_time) == (left.want, ended), sentence
