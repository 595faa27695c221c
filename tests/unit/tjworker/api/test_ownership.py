"""What of a cluster is a job's own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from tests.support.builders import make_job
from tjworker.api import labels
from tjworker.api.observed import Observed, PodRecord, ServiceRecord, WorkloadRecord
from tjworker.api.ownership import own_pods, own_services, own_workloads
from tjworker.api.resources import BATCH_JOBS, REPLICASETS

JOB = make_job().role("trainer", 2).build()
SET = WorkloadRecord("digits-pserver", "uid-of-set", 7, owner_uid=JOB.uid)
BATCH = WorkloadRecord("digits-trainer", "uid-of-batch", 8, owner_uid=JOB.uid)
THEIRS = WorkloadRecord("digits-web", "uid-of-theirs", 9, owner_uid="uid-of-a-deployment")


@dataclass(frozen=True)
class Case:
    owner_uid: str = ""
    job_uid: str = JOB.uid
    """As its label says."""
    want_own: bool = field(default=False, kw_only=True)


CASES = {
    "controlled by the job": Case(JOB.uid, want_own=True),
    "controlled by the job, without the label (it was taken off)": Case(JOB.uid, "", want_own=True),
    "kept by the job's ReplicaSet": Case(SET.uid, want_own=True),
    "kept by the job's batch Job": Case(BATCH.uid, want_own=True),
    "kept by the job's batch Job, and labelled as another job's": Case(BATCH.uid, "uid-of-another"),
    "kept by the job's batch Job, and not labelled": Case(BATCH.uid, ""),
    "kept by a stranger's ReplicaSet": Case(THEIRS.uid),
    "kept by a ReplicaSet that has not been seen": Case("uid-of-nothing"),
    "kept by nothing": Case(""),
    "of a job of the same name before it": Case("uid-of-the-first", "uid-of-the-first"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_pod_with_the_jobs_labels(case: Case) -> None:
    marks = {labels.JOB_NAME: JOB.name.name, labels.JOB_UID: case.job_uid}
    pod = PodRecord("digits-trainer-0", "uid-1", 5, owner_uid=case.owner_uid, labels=marks)
    assert bool(own_pods(JOB, Observed(pods=(pod,), replicasets=(THEIRS, SET), jobs=(BATCH,)))) == case.want_own


def test_workloads_are_those_that_the_job_controls_with_their_resource() -> None:
    found = own_workloads(JOB, Observed(replicasets=(THEIRS, SET), jobs=(BATCH, replace(BATCH, owner_uid=""))))
    assert found == ((REPLICASETS, SET), (BATCH_JOBS, BATCH))


def test_services_that_go_or_are_of_another_are_none_of_the_jobs() -> None:
    mine = ServiceRecord("b", "uid-b", 5, owner_uid=JOB.uid)
    others = (
        replace(mine, name="a"),
        replace(mine, name="c", owner_uid="x"),
        replace(mine, name="d", deleted_at=1767225600),
    )
    assert [s.name for s in own_services(JOB, Observed(services=(mine, *others)))] == ["a", "b"]
