"""Services, ReplicaSets and batch Jobs to records."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.watcher.projection.objects import meta
from tjworker.api.observed import WorkloadRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import BATCH_JOBS, REPLICASETS
from tjworker.api.timefmt import unix_seconds
from tjworker.base import GroupResource
from watcher.projection import project

WORKLOADS: dict[str, tuple[GroupResource, dict[str, Any], WorkloadRecord]] = {
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
            completed_at=unix_seconds("2026-01-02T00:00:00Z"),
        ),
    ),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(name: str) -> None:
    resource, obj, want = WORKLOADS[name]
    projected = project(resource, {"metadata": meta(name="w"), **obj})
    assert projected is not None
    assert projected.change.record is not None
    assert decode(resource, projected.change.record) == want
