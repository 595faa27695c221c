"""The life of a batch Job, in virtual time, against the real API server core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.wire import Json
from localcluster_tests.unit.world import JOBS, PODS, conditions, fake, job, phases, pods

Step = Callable[[LocalCluster], object]


def wait(seconds: float) -> Step:
    return lambda cluster: cluster.advance(seconds)


def patch(**spec: Any) -> Step:
    def step(cluster: LocalCluster) -> None:
        cluster.client.patch(f"{JOBS}/j", {"spec": spec})
        cluster.run_until_idle()

    return step


def edit_and_read_active(cluster: LocalCluster) -> None:
    cluster.client.patch(f"{JOBS}/j", {"spec": {"parallelism": 3}})
    cluster.run_until_idle()
    assert cluster.client.get(f"{JOBS}/j")["status"]["active"] == 3, "an edit waits for nothing"


def delete_and_succeed_within(seconds: float) -> Step:
    """The first pod is asked to go, and exits with 0 so much later. A finalizer of its Job holds it."""

    def step(cluster: LocalCluster) -> None:
        name = pods(cluster)[0]["metadata"]["name"]
        cluster.client.delete(f"{PODS}/{name}")
        cluster.advance(seconds)
        cluster.client.patch(f"{PODS}/{name}/status", {"status": {"phase": "Succeeded"}})
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
    "What pods do is looked at a second later": Case(
        job=job("j", parallelism=2, backoffLimit=0),
        steps=[wait(5), delete_first_pod, wait(0.9)],
        want_phases=["-Failed", "Running"],
        want_counts={"active": 2, "ready": 2},
    ),
    "An edit is looked at at once": Case(
        job=job("j", parallelism=1, backoffLimit=0),
        steps=[wait(5), edit_and_read_active, wait(5)],
        want_phases=["Running"] * 3,
        want_counts={"active": 3, "ready": 3},
    ),
    "A pod that is deleted and succeeds within that second counts as a success, and the work queue as empty": Case(
        job=job("j", annotations=fake(terminate_seconds=5), parallelism=2),
        steps=[wait(5), delete_and_succeed_within(0.5), wait(30)],
        want_phases=["Running"],
        want_counts={"active": 1, "ready": 1, "succeeded": 1},
    ),
    "One that succeeds later is a failure, and is replaced when that has been waited out": Case(
        job=job("j", annotations=fake(terminate_seconds=5), parallelism=2),
        steps=[wait(5), delete_and_succeed_within(1.5), wait(30)],
        want_phases=["Running"] * 2,
        want_counts={"active": 2, "ready": 2, "failed": 1},
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
    job_now = cluster.client.get(f"{JOBS}/j")
    status = job_now["status"]
    counts = {k: status[k] for k in ("active", "ready", "succeeded", "failed", "terminating") if status.get(k)}
    assert (phases(cluster), counts, conditions(job_now)) == (case.want_phases, case.want_counts, case.want_conditions)
    assert status.get("uncountedTerminatedPods", {}) == {}


def test_a_job_at_rest_is_written_no_more() -> None:
    cluster = LocalCluster()
    cluster.client.create(JOBS, job("j", parallelism=3))
    cluster.advance(5)
    before = cluster.client.get(f"{JOBS}/j")["metadata"]["resourceVersion"]
    cluster.advance(120)
    assert cluster.client.get(f"{JOBS}/j")["metadata"]["resourceVersion"] == before
