"""Pods to records: what is kept, what never is, and what it costs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.seeds import the_seed
from tests.unit.watcher.projection.objects import KEY, POD, meta
from tjworker.api.observed import ContainerRecord, PodRecord
from tjworker.api.pod_records import Deletion, pod_record
from tjworker.api.records_json import decode
from tjworker.api.resources import PODS
from tjworker.api.timefmt import unix_seconds
from watcher.projection import project


def test_a_pod_keeps_what_a_decision_needs_and_nothing_else() -> None:
    projected = project(PODS, POD)
    assert projected is not None
    assert (projected.change.key, projected.change.resource, projected.change.name, projected.change.rv) == (
        KEY,
        PODS,
        "digits-trainer-0",
        42,
    )
    assert (projected.change.job_uid, projected.node) == ("job-uid", "node-a")
    assert projected.change.record is not None
    assert decode(PODS, projected.change.record) == PodRecord(
        name="digits-trainer-0",
        uid="u1",
        rv=42,
        owner_uid="job-uid",
        labels={
            "group-name": "elasticdeeplearning.ai",
            "job-name": "digits",
            "replica-type": "trainer",
            "replica-index": "0",
            "restart-attempt": "1",
        },
        phase="Running",
        node="node-a",
        created_at=unix_seconds("2026-01-01T00:00:00Z"),
        started_at=unix_seconds("2026-01-01T00:00:05Z"),
        ready=True,
        scheduled=True,
        containers=(
            ContainerRecord(
                "sync",
                "terminated",
                reason="Completed",
                exit_code=0,
                finished_at=unix_seconds("2026-01-01T00:00:06Z"),
                init=True,
            ),
            ContainerRecord(
                "aitj-main",
                "running",
                restarts=2,
                ready=True,
                started_at=unix_seconds("2026-01-01T00:00:07Z"),
                unhealthy_devices=("GPU-1",),
            ),
            ContainerRecord("side", "waiting", reason="ImagePullBackOff", message="no such image"),
        ),
        gpus={"nvidia.com/gpu": 3},
        requests={"cpu": 1000, "memory": 2**30, "nvidia.com/gpu": 3},
    )
    assert b"s3cret" not in projected.change.record


@dataclass(frozen=True)
class PodCase:
    status: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    want: dict[str, Any] = field(default_factory=dict)


LOST = {
    "name": "side",
    "state": {"waiting": {"reason": "ContainerCreating"}},
    "lastState": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}},
}
POD_CASES: dict[str, PodCase] = {
    "A pod has failed, and of a container the kubelet has lost only the last state tells.": PodCase(
        {"phase": "Failed", "containerStatuses": [LOST]},
        want={"containers": (ContainerRecord("side", "terminated", "ContainerStatusUnknown", exit_code=137),)},
    ),
    "A pod that fits nowhere keeps the scheduler's words.": PodCase(
        {
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
            ]
        },
        want={"unschedulable": "0/3 nodes", "scheduled": False},
    ),
    "A disruption keeps its reason.": PodCase(
        {
            "phase": "Failed",
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "preempted by web",
                }
            ],
        },
        want={"phase": "Failed", "disruption": "PreemptionByScheduler", "disruption_message": "preempted by web"},
    ),
    "A signal and an exit code are kept.": PodCase(
        {
            "containerStatuses": [
                {"name": "a", "state": {"terminated": {"exitCode": 137, "signal": 9, "reason": "OOMKilled"}}}
            ]
        },
        want={"containers": (ContainerRecord("a", "terminated", reason="OOMKilled", exit_code=137, signal=9),)},
    ),
    "A container without a state waits.": PodCase(
        {"containerStatuses": [{"name": "a", "state": {}}]}, want={"containers": (ContainerRecord("a"),)}
    ),
    "Lists that are null are empty.": PodCase(
        {"containerStatuses": None, "conditions": None, "initContainerStatuses": None},
        {"containers": None},
        {"containers": (), "gpus": {}},
    ),
}


@pytest.mark.parametrize("name", POD_CASES)
def test_pod(name: str) -> None:
    case = POD_CASES[name]
    projected = project(PODS, {"metadata": meta(), "spec": case.spec, "status": case.status})
    assert projected is not None
    assert projected.change.record is not None
    record = decode(PODS, projected.change.record)
    assert {attribute: getattr(record, attribute) for attribute in case.want} == case.want


DELETIONS: dict[str, tuple[dict[str, Any], str]] = {
    "it is not being deleted": ({}, ""),
    "grace 30": (
        {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30},
        "2026-01-01T00:00:10Z",
    ),
    "a grace period of 3,168 years, which the API server's 64 bits of nanoseconds make 246 years": (
        {"deletionTimestamp": "2272-02-08T11:53:51Z", "deletionGracePeriodSeconds": 100_000_000_000},
        "2025-12-31T23:59:59Z",
    ),
    "no grace given": ({"deletionTimestamp": "2026-01-01T00:00:40Z"}, "2026-01-01T00:00:40Z"),
}


@pytest.mark.parametrize(("meta", "want"), DELETIONS.values(), ids=DELETIONS.keys())
def test_when_the_deletion_was_asked_for(meta: dict[str, Any], want: str) -> None:
    pod = pod_record({}, {"name": "p", "uid": "u", "resourceVersion": "1", **meta}, "")
    assert pod.deletion_asked_at == unix_seconds(want)


CONFIRMED = {"deletionTimestamp": "2026-01-01T00:00:13Z", "deletionGracePeriodSeconds": 0}
CONFIRMED_AT = unix_seconds("2026-01-01T00:00:13Z")
ASKED = unix_seconds("2026-01-01T00:00:10Z")


@dataclass(frozen=True, slots=True)
class Remembered:
    meta: dict[str, Any]
    before: Deletion | None
    want: tuple[int | None, int, bool]
    """When it was asked for, what is granted now, whether it was told to go."""


REMEMBERED = {
    "it is granted a grace period": Remembered(
        {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30}, None, (ASKED, 30, True)
    ),
    "its kubelet has confirmed the deletion: what was said before holds": Remembered(
        CONFIRMED, Deletion("u", ASKED, was_told_to_go=True), (ASKED, 0, True)
    ),
    "nobody has seen it before: there is its time alone": Remembered(CONFIRMED, None, (CONFIRMED_AT, 0, False)),
    "another pod of that name said so": Remembered(
        CONFIRMED, Deletion("v", ASKED, was_told_to_go=True), (CONFIRMED_AT, 0, False)
    ),
    "it is not being deleted": Remembered({}, None, (None, 0, False)),
}


@pytest.mark.parametrize("case", REMEMBERED.values(), ids=REMEMBERED.keys())
def test_what_a_pod_has_said_of_its_deletion_is_remembered(case: Remembered) -> None:
    pod = pod_record({}, {"name": "p", "uid": "u", "resourceVersion": "1", **case.meta}, "", case.before)
    assert (pod.deletion_asked_at, pod.deletion_grace_seconds, pod.was_told_to_go) == case.want


@pytest.mark.parametrize(
    ("finalizers", "uncounted"),
    [
        (["batch.kubernetes.io/job-tracking"], True),
        (["batch.kubernetes.io/job-tracking", "example.com/backup"], False),
        (["example.com/backup"], False),
        ([], False),
        (None, False),
    ],
)
def test_a_pod_is_uncounted_while_the_finalizer_of_its_batch_job_alone_holds_it(
    finalizers: list[str] | None, uncounted: bool
) -> None:
    meta = {"name": "p", "uid": "u", "resourceVersion": "1", "finalizers": finalizers}
    assert pod_record({}, meta, "").uncounted is uncounted


def test_records_survive_random_objects() -> None:
    seed = the_seed()
    rng = random.Random(seed)
    for _ in range(300):
        obj = {"metadata": meta(), "spec": _thinned(rng, POD["spec"]), "status": _thinned(rng, POD["status"])}
        projected = project(PODS, obj)
        assert projected is not None, f"seed {seed}"
        assert projected.change.record is not None
        record = decode(PODS, projected.change.record)
        assert isinstance(record, PodRecord), f"seed {seed}"
        assert record.name == "digits-trainer-0", f"seed {seed}"


def _thinned(rng: random.Random, value: Any) -> Any:
    """The value with optional parts missing or null, as servers of different versions leave them out."""
    if isinstance(value, dict):
        keep = {"name", "type", "status", "resourceID"}
        return {
            k: (None if k not in keep and rng.random() < 0.1 else _thinned(rng, v))
            for k, v in value.items()
            if k in keep or rng.random() < 0.8
        }
    if isinstance(value, list):
        return [_thinned(rng, v) for v in value]
    return value
