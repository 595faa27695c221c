"""The life of a batch Job, in virtual time, against the real API server core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.controllers.job_status import format_indexes, parse_indexes
from localcluster.wire import Json
from unit.world import JOBS, PODS, conditions, fake, get, job, phases, pods

Step = Callable[[LocalCluster], object]


def wait(seconds: float) -> Step:
    return lambda cluster: cluster.advance(seconds)


def patch(**spec: Any) -> Step:
    def step(cluster: LocalCluster) -> None:
        cluster.client.patch(f"{JOBS}/j", {"spec": spec})
        cluster.run_until_idle()

    return step


def delete_first_pod(cluster: LocalCluster) -> None:
    cluster.client.delete(f"{PODS}/{pods(cluster)[0]['metadata']['name']}")
    cluster.run_until_idle()


@dataclass(frozen=True)
class Case:
    job: Json
    steps: list[Step]
    want_phases: list[str]
    want_counts: dict[str, int] = field(default_factory=dict)
    """active, ready, succeeded, failed, terminating: those not named are absent or 0."""
    want_conditions: dict[str, str] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "A failed pod is replaced after 10 seconds, not before": Case(
        job=job("j", annotations=fake(run_seconds=1, exit_code=1)),
        steps=[wait(9)],
        want_phases=["Failed"],
        want_counts={"failed": 1},
    ),
    "The second failure waits 20 seconds": Case(
        job=job("j", annotations=fake(run_seconds=1, exit_code=1)),
        steps=[wait(12.5), wait(15)],
        want_phases=["Failed", "Failed"],
        want_counts={"failed": 2},
    ),
    "A deleted pod counts as failed, and with backoffLimit 0 it ends the job": Case(
        job=job("j", parallelism=2, backoffLimit=0),
        steps=[delete_first_pod],
        want_phases=[],
        want_counts={"failed": 2},
        want_conditions={"FailureTarget": "True/BackoffLimitExceeded", "Failed": "True/BackoffLimitExceeded"},
    ),
    "Suspending takes the pods away and counts no failure; resuming brings new ones at once": Case(
        job=job("j", parallelism=2),
        steps=[patch(suspend=True), patch(suspend=False)],
        want_phases=["Running"] * 2,
        want_counts={"active": 2, "ready": 2},
        want_conditions={"Suspended": "False/JobResumed"},
    ),
    "OnFailure: restarts of the container count against the limit": Case(
        job=job("j", annotations=fake(run_seconds=1, exit_code=1), restart="OnFailure", backoffLimit=1),
        steps=[wait(5)],
        want_phases=[],
        want_counts={"failed": 1},
        want_conditions={"FailureTarget": "True/BackoffLimitExceeded", "Failed": "True/BackoffLimitExceeded"},
    ),
    "An indexed job completes each index once": Case(
        job=job("j", annotations=fake(run_seconds=2), parallelism=2, completions=3, completionMode="Indexed"),
        steps=[wait(10)],
        want_phases=["Succeeded"] * 3,
        want_counts={"succeeded": 3},
        want_conditions={"SuccessCriteriaMet": "True/CompletionsReached", "Complete": "True/CompletionsReached"},
    ),
    "A finished job starts nothing when its pods go": Case(
        job=job("j", annotations=fake(run_seconds=1)),
        steps=[wait(3), delete_first_pod, wait(60)],
        want_phases=[],
        want_counts={"succeeded": 1},
        want_conditions={"SuccessCriteriaMet": "True/CompletionsReached", "Complete": "True/CompletionsReached"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_life_of_a_job(name: str) -> None:
    case = CASES[name]
    cluster = LocalCluster(nodes=2)
    cluster.client.create(JOBS, case.job)
    cluster.run_until_idle()
    for step in case.steps:
        step(cluster)
    told = cluster.client.get(f"{JOBS}/j")
    status = told["status"]
    counts = {k: status[k] for k in ("active", "ready", "succeeded", "failed", "terminating") if status.get(k)}
    assert (phases(cluster), counts, conditions(told)) == (case.want_phases, case.want_counts, case.want_conditions)
    assert status.get("uncountedTerminatedPods", {}) == {}


def test_a_finished_job_goes_after_its_ttl_and_takes_its_pods_with_it() -> None:
    cluster = LocalCluster()
    cluster.client.create(JOBS, job("j", annotations=fake(run_seconds=5), ttlSecondsAfterFinished=60))
    cluster.advance(64)
    assert get(cluster, f"{JOBS}/j") is not None
    cluster.advance(3)
    assert get(cluster, f"{JOBS}/j") is None
    assert pods(cluster) == []


def test_a_job_at_rest_is_written_no_more() -> None:
    cluster = LocalCluster()
    cluster.client.create(JOBS, job("j", parallelism=3))
    cluster.run_until_idle()
    before = cluster.client.get(f"{JOBS}/j")["metadata"]["resourceVersion"]
    cluster.advance(120)
    assert cluster.client.get(f"{JOBS}/j")["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize(
    ("indexes", "text"), [(set(), ""), ({3}, "3"), ({0, 1}, "0,1"), ({0, 1, 2, 5, 7, 8}, "0-2,5,7,8")]
)
def test_completed_indexes_are_written_as_kubernetes_writes_them(indexes: set[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text) == indexes
