"""A container that cannot be created: the message of its restart."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.support.builders import make_job, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import NOW, RULES, ago, condition, decide, deleted, status_of
from tjworker.api.timefmt import to_rfc3339


def test_a_container_that_could_not_be_created_is_named_with_its_node_and_for_how_long() -> None:
    rules = replace(RULES, creating_duration_seconds=60, creating_restart_seconds=300)
    job = make_job().role("trainer", 1).build()
    pod = (
        make_pod(job, "trainer", 0)
        .on("node-7")
        .creating("ErrImagePull", "no such image")
        .but(created_at="2026-01-01T00:58:59Z")
    )
    status = status_of(decide(job, observe(pod, make_service(job, "trainer", 0)), rules=rules))
    words = "pod digits-trainer-0 on node node-7 cannot start container aitj-main: ErrImagePull no such image"
    assert f"{words} for 61 s" in condition(status, "Restarting")[2]


@dataclass(frozen=True, slots=True)
class Waited:
    scheduled_at: str
    started_at: str
    want_deleted: bool


WAITED = {
    "it got its node a moment ago: left alone, however long it waited for one": Waited(ago(2), "", False),
    "it got its node as long ago as it may be creating: made again": Waited(ago(900), "", True),
    "the clock of its node is behind: when it got its node decides": Waited(ago(2), ago(5000), False),
    "a record of an older watcher does not say when: the kubelet's word counts": Waited("", ago(2), False),
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


def test_the_api_server_is_asked_about_that_pod_alone_before_it_goes() -> None:
    """Not about those that run, or that are being created as they should."""
    job = make_job().role("trainer", 3).build()
    stuck = make_pod(job, "trainer", 0).on("node-7").creating("ErrImagePull", "no such image")
    slow = make_pod(job, "trainer", 1).on("node-7").but(scheduled_at=ago(900))
    pods = (stuck.but(scheduled_at=ago(900)), slow, make_pod(job, "trainer", 2).running())
    plan = decide(job, observe(*pods, *(make_service(job, "trainer", index) for index in range(3))))
    assert deleted(plan) == ["digits-trainer-0"]
    assert plan.confirm == ("pods/digits-trainer-0",)
