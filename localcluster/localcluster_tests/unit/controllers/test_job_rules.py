"""What counts as failed, how long a Job waits, when it is over: every combination, in Kubernetes' words.

https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.controllers.job_status import (
    TRACKING_FINALIZER,
    Backoff,
    counts_as_failed,
    finished_seconds,
    past_backoff_on_failure,
)
from localcluster.objects import timestamp
from localcluster.wire import Json
from localcluster_tests.unit.world import JOBS, conditions, fake, job, phases

NOON = 1_767_268_800.0


def at(seconds: float) -> str:
    return timestamp(NOON + seconds)


def pod(phase: str = "Running", *, deleted: bool = False, **status: Any) -> Json:
    meta: Json = {"name": "p", "uid": "p", "creationTimestamp": at(1), "finalizers": [TRACKING_FINALIZER]}
    if deleted:
        meta |= {"deletionTimestamp": at(40), "deletionGracePeriodSeconds": 30}
    return {"metadata": meta, "spec": {}, "status": {"phase": phase, **status}}


# -- which pods have failed ------------------------------------------------------------------------
@pytest.mark.parametrize("policy", [None, "TerminatingOrFailed", "Failed"])
@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("phase", ["Pending", "Running", "Succeeded", "Failed"])
def test_which_pods_count_as_failed(phase: str, deleted: bool, policy: str | None) -> None:
    """Pods of phase Failed count, and pods that are being deleted, unless only failed pods are replaced."""
    spec = {"podReplacementPolicy": policy} if policy else {}
    want = phase == "Failed" or (deleted and phase != "Succeeded" and policy != "Failed")
    assert counts_as_failed(pod(phase, deleted=deleted), {"spec": spec}) is want


def ended(*finished: float | None) -> list[Json]:
    return [{"state": {"terminated": {"finishedAt": at(f)}} if f is not None else {"running": {}}} for f in finished]


UNREADY = [{"type": "Ready", "status": "False", "lastTransitionTime": at(20)}]
WHEN: dict[str, tuple[Json, float]] = {
    "when the last of its containers ended": (pod(containerStatuses=ended(5, 9, 7), conditions=UNREADY), 9),
    "when it stopped to be ready, while one still runs": (
        pod(containerStatuses=ended(5, None), conditions=UNREADY),
        20,
    ),
    "when its deletion was asked for, not at the end of its grace": (pod(deleted=True), 10),
    "when it stopped to be ready, before its deletion": (pod(deleted=True, conditions=UNREADY), 20),
    "when it was made, if nothing else is known": (pod(), 1),
    "one that is ready has not stopped": (pod(conditions=[{**UNREADY[0], "status": "True"}]), 1),
}


@pytest.mark.parametrize("sentence", WHEN)
def test_when_a_pod_has_ended(sentence: str) -> None:
    one, want = WHEN[sentence]
    assert finished_seconds(one) - NOON == want


# -- the growing delay -----------------------------------------------------------------------------


def failed(*seconds: float) -> list[Json]:
    return [pod("Failed", containerStatuses=ended(second)) for second in seconds]


AFTER: dict[str, tuple[Backoff, list[Json], list[Json], tuple[int, float | None]]] = {
    "nothing new": (Backoff(2, NOON), [], [], (2, 0)),
    "failures are added, and the last counts": (Backoff(2, NOON), [], failed(9, 5), (4, 9)),
    "a success forgets what failed before it": (Backoff(4, NOON), failed(10), failed(5, 9), (0, None)),
    "and not what failed after it": (Backoff(4, NOON), failed(7), failed(5, 9, 8), (2, 9)),
    "of several successes the last": (Backoff(4, NOON), failed(3, 8), failed(5, 9), (1, 9)),
}


@pytest.mark.parametrize("sentence", AFTER)
def test_what_is_remembered_of_failures(sentence: str) -> None:
    before, succeeded, newly_failed, (count, last) = AFTER[sentence]
    found = before.after(succeeded, newly_failed)
    assert found == Backoff(count, None if last is None else NOON + last)


# -- restarts in place -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("limit", "restarts", "want"),
    [
        (0, 0, False),
        (0, 1, True),
        (1, 0, False),
        (1, 1, True),
        (3, 2, False),
        (3, 3, True),
        (None, 5, False),
        (None, 6, True),
    ],
)
def test_restarts_in_place_use_up_the_limit(limit: int | None, restarts: int, want: bool) -> None:
    spec: Json = {"template": {"spec": {"restartPolicy": "OnFailure"}}}
    if limit is not None:
        spec["backoffLimit"] = limit
    halves = [{"restartCount": restarts // 2}], [{"restartCount": restarts - restarts // 2}]
    pods = [pod("Running", containerStatuses=halves[0]), pod("Pending", initContainerStatuses=halves[1])]
    over = [pod(phase, containerStatuses=[{"restartCount": 9}]) for phase in ("Succeeded", "Failed")]
    assert past_backoff_on_failure({"spec": spec}, [*pods, *over]) is want
    never = {**spec, "template": {"spec": {"restartPolicy": "Never"}}}
    assert not past_backoff_on_failure({"spec": never}, pods)


# -- whole lives -----------------------------------------------------------------------------------
def played(seconds: float, **spec: Any) -> tuple[LocalCluster, Json]:
    cluster = LocalCluster(nodes=2)
    annotations = fake(**spec.pop("fakes", {"run_seconds": 2}))
    cluster.client.create(JOBS, job("j", annotations=annotations, **spec))
    cluster.run_until_idle()
    cluster.advance(seconds)
    job_now: Json = cluster.client.get(f"{JOBS}/j")
    return cluster, job_now


def test_a_suspension_stops_the_deadline_which_begins_anew_when_it_is_resumed() -> None:
    cluster, _ = played(6, activeDeadlineSeconds=10, fakes={})
    cluster.client.patch(f"{JOBS}/j", {"spec": {"suspend": True}})
    cluster.advance(60)
    job_now = cluster.client.get(f"{JOBS}/j")
    assert (phases(cluster), "startTime" in job_now["status"]) == ([], False)
    cluster.client.patch(f"{JOBS}/j", {"spec": {"suspend": False}})
    cluster.advance(9)
    assert phases(cluster) == ["Running"]
    cluster.advance(3)
    assert conditions(cluster.client.get(f"{JOBS}/j"))["Failed"] == "True/DeadlineExceeded"
