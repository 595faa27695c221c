"""The autoscaler's targets: when one stands in for spec.replicas, and what the status says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.builders import JobBuilder, make_job, make_pod
from tests.unit.tjworker.reconcile.passes import NOW_TEXT, created, decide, deleted, everything, status_of
from tjworker.api.status import JobStatus, ReplicaStatus, ScaleRecord

RECORD = ScaleRecord(role="trainer", from_=2, to=4, time="2026-01-01T00:30:00Z", reason="autoscaler: room for 2 more")


def auto(replicas: int = 2, *, least: int = 1, most: int = 5, edl: str = "Auto", **spec: Any) -> JobBuilder:
    return make_job().workers(replicas, least=least, most=most, edl=edl).role("pserver", 1).spec(**spec)


@dataclass(frozen=True)
class Case:
    job: JobBuilder
    want: int
    """Trainers that the job has then."""
    want_target: int | None
    """What the status says after the next write of it."""
    targets: dict[str, int] = field(default_factory=lambda: {"trainer": 4})
    beside: dict[str, int] = field(default_factory=lambda: {"trainer": 2})


CASES = {
    "a target stands in for the spec's replicas": Case(auto(), 4, 4),
    "without a target the spec counts": Case(auto(), 2, None, {}, {}),
    "kubectl scale sets the target aside": Case(auto(3), 3, None),
    "a maximum that was lowered since": Case(auto(most=3), 3, 4),
    "a minimum that was raised since": Case(auto(2, least=2), 2, 1, {"trainer": 1}),
    "edlPolicy Manual: people have the word again": Case(auto(edl="Manual"), 2, None),
    "a role that is not elastic any more": Case(auto(2, least=2, most=2), 2, None),
    "a role that the spec does not have": Case(auto(), 2, None, {"master": 3}, {"master": 1}),
    "garbage in the status: far beyond the maximum": Case(auto(), 5, 10**9, {"trainer": 10**9}),
}


@pytest.mark.parametrize("sentence", CASES)
def test_how_many_trainers_there_are(sentence: str) -> None:
    case = CASES[sentence]
    job = case.job.status(JobStatus(targets=case.targets, targets_beside=case.beside)).build()
    plan = decide(job)
    assert [name for name in created(plan) if "trainer" in name] == [f"digits-trainer-{i}" for i in range(case.want)]
    status = status_of(plan)
    assert status.replica_statuses["trainer"].desired == case.want
    assert status.targets.get("trainer") == case.want_target
    assert status.targets.keys() == status.targets_beside.keys() or not case.beside
    assert "master" not in status.targets


def running(builder: JobBuilder, was: int, records: tuple[ScaleRecord, ...], **status: Any) -> JobBuilder:
    desired = {"trainer": ReplicaStatus(desired=was), "pserver": ReplicaStatus(desired=1)}
    return builder.status(
        JobStatus(phase="Running", start_time=NOW_TEXT, replica_statuses=desired, scale_records=records, **status)
    )


def test_a_target_is_carried_out_without_a_restart_and_recorded_once_with_its_reason() -> None:
    builder = running(auto(), 2, (RECORD,), targets={"trainer": 4}, targets_beside={"trainer": 2})
    job = builder.build()
    plan = decide(
        job,
        everything(job, *(make_pod(job, "trainer", i).running() for i in range(2)), make_pod(job, "pserver").running()),
    )
    assert created(plan) == ["digits-trainer-2", "digits-trainer-3"]
    assert deleted(plan) == []
    status = status_of(plan)
    assert status.phase == "Scaling"
    assert status.scale_records == (RECORD,)


TARGET: dict[str, Any] = {"targets": {"trainer": 4}, "targets_beside": {"trainer": 2}}
REASONS = {
    "kubectl scale on a role of the autoscaler's": (
        running(auto(3), 4, (RECORD,), **TARGET),
        (3, "user", "spec.replicaSpecs.trainer.replicas was set to 3"),
    ),
    "kubectl scale where there is no target": (
        running(auto(3), 2, ()),
        (3, "user", "spec.replicaSpecs.trainer.replicas was set to 3"),
    ),
    "tj scale, and an HPA, set the number of the whole job": (
        running(auto(4).spec(replicas=3), 4, (RECORD,), **TARGET),
        (3, "user", "spec.replicas was set to 3"),
    ),
    "edlPolicy Manual": (
        running(auto(edl="Manual"), 4, (RECORD,), **TARGET),
        (2, "user", "the autoscaler no longer moves this role: spec.replicaSpecs.trainer.replicas counts again"),
    ),
    "the job is suspended": (
        running(auto(suspend=True), 4, (RECORD,), **TARGET),
        (2, "user", "spec.suspend was set: spec.replicaSpecs.trainer.replicas counts again"),
    ),
    "a maximum below the target": (
        running(auto(most=3), 4, (RECORD,), **TARGET),
        (3, "bounds", "autoscaler: kept within minReplicas and maxReplicas"),
    ),
}


@pytest.mark.parametrize("sentence", REASONS)
def test_why_the_number_changed(sentence: str) -> None:
    builder, want = REASONS[sentence]
    newest = status_of(decide(builder.build())).scale_records[0]
    assert (newest.to, newest.cause, newest.reason) == want
