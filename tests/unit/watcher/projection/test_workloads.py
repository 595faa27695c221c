"""Services, ReplicaSets and batch Jobs to records."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.watcher.projection.objects import meta
from tjworker.api.observed import ServiceRecord, WorkloadRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import BATCH_JOBS, REPLICASETS, SERVICES
from tjworker.base import GroupResource
from watcher.projection import project


def test_a_service_keeps_its_ports() -> None:
    projected = project(SERVICES, {"metadata": meta(), "spec": {"ports": [{"port": 2222}, {"port": 80}]}})
    assert projected is not None
    assert projected.change.record is not None
    assert decode(SERVICES, projected.change.record) == ServiceRecord(
        "digits-trainer-0", "u1", 42, "job-uid", ports=(2222, 80)
    )


WORKLOADS: dict[str, tuple[GroupResource, dict[str, Any], WorkloadRecord]] = {
    "A ReplicaSet wants replicas.": (
        REPLICASETS,
        {"spec": {"replicas": 3}, "status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 4}},
        WorkloadRecord("w", "u1", 42, "job-uid", desired=3, ready=1, active=2, observed_generation=4),
    ),
    "A ReplicaSet says when its pods are refused.": (
        REPLICASETS,
        {
            "spec": {"replicas": 3},
            "status": {
                "conditions": [
                    {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
                ]
            },
        },
        WorkloadRecord("w", "u1", 42, "job-uid", desired=3, reason="FailedCreate", message="exceeded quota"),
    ),
    "A batch Job wants parallelism and may have ended.": (
        BATCH_JOBS,
        {
            "spec": {"parallelism": 5},
            "status": {
                "active": 4,
                "ready": 3,
                "succeeded": 1,
                "failed": 2,
                "conditions": [
                    {"type": "FailureTarget", "status": "True"},
                    {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"},
                ],
            },
        },
        WorkloadRecord(
            "w",
            "u1",
            42,
            "job-uid",
            desired=5,
            ready=3,
            active=4,
            succeeded=1,
            failed=2,
            condition="Failed",
            reason="BackoffLimitExceeded",
            message="m",
        ),
    ),
    "A batch Job says since when it is Complete.": (
        BATCH_JOBS,
        {
            "spec": {"parallelism": 2},
            "status": {
                "succeeded": 2,
                "completionTime": "2026-01-02T00:00:00Z",
                "conditions": [{"type": "Complete", "status": "True", "reason": "CompletionsReached"}],
            },
        },
        WorkloadRecord(
            "w",
            "u1",
            42,
            "job-uid",
            desired=2,
            succeeded=2,
            condition="Complete",
            reason="CompletionsReached",
            completed_at="2026-01-02T00:00:00Z",
        ),
    ),
    "A Job scaled to nothing wants nothing.": (
        BATCH_JOBS,
        {"spec": {"parallelism": 0}},
        WorkloadRecord("w", "u1", 42, "job-uid"),
    ),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name: str) -> None:
    resource, obj, want = WORKLOADS[name]
    projected = project(resource, {"metadata": meta(name="w"), **obj})
    assert projected is not None
    assert projected.change.record is not None
    assert decode(resource, projected.change.record) == want
