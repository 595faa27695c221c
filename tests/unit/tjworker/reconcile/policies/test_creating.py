"""A container that cannot be created: from when its time counts, and when it is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.builders import PodBuilder, make_job, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import NOW, ago, children_needed, condition, decide, deleted, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.timefmt import to_rfc3339


@dataclass(frozen=True, slots=True)
class Waited:
    scheduled_at: str
    started_at: str
    want_deleted: bool


WAITED = {
    "it got its node a moment ago: left alone, however long it waited for one": Waited(ago(2), "", False),
    "it got its node as long ago as it may be creating: made again": Waited(ago(900), "", True),
    "the clock of its node is behind: when it got its node decides": Waited(ago(2), ago(5000), False),
    "no scheduler says when it got its node: the kubelet's word counts": Waited("", ago(2), False),
}


@pytest.mark.parametrize("case", WAITED.values(), ids=WAITED.keys())
def test_creating_is_timed_from_the_placement(case: Waited) -> None:
    job = make_job().role("trainer", 1).build()
    pod = make_pod(job, "trainer", 0).on("node-7").creating("ErrImagePull", "toomanyrequests")
    pod = pod.but(created_at=ago(4000), scheduled_at=case.scheduled_at, started_at=case.started_at)
    plan = decide(job, observe(pod, make_service(job, "trainer", 0)))
    assert (deleted(plan) == ["digits-trainer-0"]) is case.want_deleted
    if case.want_deleted:
        assert "for 900 s" in condition(status_of(plan), "Restarting")[2]
        assert status_of(plan).creating_since == {"trainer": {to_rfc3339(NOW - 900): "0"}}


def trainer(job: TrainingJob) -> PodBuilder:
    return make_pod(job, "trainer", 0)


BETWEEN: dict[str, tuple[Callable[[TrainingJob], PodBuilder | None], bool]] = {
    "its pod is to be made again": (lambda job: None, True),
    "its new pod has no node": (trainer, True),
    "its new pod is being created": (lambda job: trainer(job).on("b").creating("ContainerCreating", ""), True),
    "its new pod has the same trouble": (lambda job: trainer(job).on("b").creating("ErrImagePull", "no"), True),
    "it runs": (lambda job: trainer(job).running(), False),
    "it has succeeded": (lambda job: trainer(job).succeeded(), False),
    "it has failed": (lambda job: trainer(job).failed(), False),
}


@pytest.mark.parametrize("sentence", BETWEEN)
def test_the_first_trouble_counts_until_the_replica_has_run(sentence: str) -> None:
    """Whoever has run and misses its image an hour later is tried for as long as at first."""
    pod_of, kept = BETWEEN[sentence]
    first = {"trainer": {ago(100): "0"}}
    built = make_job().role("trainer", 2).status(phase="Creating", start_time=ago(900), creating_since=first)
    job = built.build()
    pods = [p for p in (pod_of(job),) if p is not None] + [make_pod(job, "trainer", 1).running()]
    plan = decide(job, observe(*pods, *(make_service(job, "trainer", index) for index in range(2))))
    assert (plan.status or job.status).creating_since == (first if kept else {})


def test_the_api_server_is_asked_about_that_pod_alone_before_it_goes() -> None:
    """Not about those that run, or that are being created as they should."""
    job = make_job().role("trainer", 3).build()
    stuck = make_pod(job, "trainer", 0).on("node-7").creating("ErrImagePull", "no such image")
    slow = make_pod(job, "trainer", 1).on("node-7").but(scheduled_at=ago(900))
    pods = (stuck.but(scheduled_at=ago(900)), slow, make_pod(job, "trainer", 2).running())
    plan = decide(job, observe(*pods, *(make_service(job, "trainer", index) for index in range(3))))
    assert deleted(plan) == ["digits-trainer-0"]
    assert children_needed(plan) == ("pods/digits-trainer-0",)
