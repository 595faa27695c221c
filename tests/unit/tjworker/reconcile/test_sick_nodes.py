"""Pods on a node that is lost, not ready or at fault: deleted once, with the right grace and the right count."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job, make_node, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import RULES, ago, decide, deleted, everything, status_of
from tjworker.api.resources import NODES


def test_an_ended_pod_that_hangs_in_deletion_on_a_lost_node_is_forced_out_and_not_taken_for_a_lost_one() -> None:
    job = (
        make_job()
        .role("trainer", 1, restart="OnFailure", scope="Pod")
        .status(phase="Running", start_time=ago(900))
        .build()
    )
    failed = make_pod(job, "trainer", 0).on("node-b").failed(exit_code=3)
    first = status_of(decide(job, everything(job, failed)))
    going = make_job().role("trainer", 1, restart="OnFailure", scope="Pod").status(first).build()
    seen = observe(
        make_pod(going, "trainer", 0).on("node-b").failed(exit_code=3).deleting(ago(60)).but(created_at=ago(900)),
        make_node("node-b").not_ready(ago(60)),
        make_service(going, "trainer", 0),
        seen={NODES: 1},
    )
    plan = decide(going, seen)
    assert [(w.name, getattr(w, "grace_seconds", None)) for w in plan.writes] == [("digits-trainer-0", 0)]
    assert (plan.status or first).restart_counts["trainer"].application == 1


@pytest.mark.parametrize(
    "times", [{"created_at": ago(2)}, {"created_at": ago(900), "scheduled_at": ago(2)}], ids=["new", "waited for room"]
)
def test_a_pod_put_onto_a_sick_node_has_a_grace_of_its_own(times: dict[str, str]) -> None:
    job = (
        make_job()
        .role("trainer", 1, restart="Always", scope="Pod")
        .status(phase="Running", start_time=ago(900))
        .build()
    )
    young = make_pod(job, "trainer", 0).on("node-b").running().but(**times)
    sick = make_node("node-b").not_ready(ago(600))
    plan = decide(job, observe(young, sick, make_service(job, "trainer", 0), seen={NODES: 1}))
    assert deleted(plan) == []
    assert plan.requeue_after_seconds == RULES.node_failure_grace_seconds - 2


def test_a_pod_that_was_forced_out_and_hangs_on_a_finalizer_is_not_asked_to_go_again_and_again() -> None:
    job = (
        make_job()
        .role("trainer", 1, restart="Always", scope="Pod")
        .status(phase="Running", start_time=ago(900))
        .build()
    )

    def plan(asked_at: str) -> list[str]:
        pod = make_pod(job, "trainer", 0).on("node-b").running().deleting(ago(5), asked_at)
        node = make_node("node-b").not_ready(ago(60))
        first = status_of(decide(job, observe(pod, node, make_service(job, "trainer", 0), seen={NODES: 1})))
        going = make_job().role("trainer", 1, restart="Always", scope="Pod").status(first).build()
        return deleted(decide(going, observe(pod, node, make_service(job, "trainer", 0), seen={NODES: 1})))

    assert plan(ago(35)) == ["digits-trainer-0"]
    assert plan(ago(5)) == []
