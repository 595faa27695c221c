"""A pod that is asked to go and stays: when that is reported, and in which words."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job, make_pod, observe
from tests.unit.tjworker.reconcile.passes import (
    NOW,
    NOW_TEXT,
    World,
    after,
    condition,
    decide,
    deleted,
    running,
    status_of,
)
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile import Plan, report_delete_failure
from tjworker.reconcile.policies.stuck_deletion import StuckDeletions, find_stuck_deletions

GRACE_OVER = NOW_TEXT
WAS = f"was to be gone by {GRACE_OVER}"
WHO = "a finalizer holds it (see its metadata.finalizers), or the kubelet of its node does not answer"
HELD: dict[str, tuple[list[str], float, str, float | None]] = {
    # Where each pod that is asked to go stands ('' nowhere), seconds since its grace was over.
    "none is asked to go": ([], 0, "", None),
    "its grace is just over": (["node-a"], 0, "", 10),
    "it should be gone": (["node-a"], 10, f"pod p0 on node node-a {WAS} and is still there: {WHO}", None),
}


@pytest.mark.parametrize(("nodes", "seconds", "want", "want_next"), HELD.values(), ids=HELD.keys())
def test_a_pod_that_does_not_go(nodes: list[str], seconds: float, want: str, want_next: float | None) -> None:
    job = make_job().role("trainer", 1).build()
    stays = make_pod(job, "trainer", 0).running().build()
    asked_at = to_rfc3339(NOW - 30)  # its grace is 30 s; what counts is when that is over
    pods = [
        make_pod(job, "trainer", 0)
        .running()
        .but(name=f"p{i}", node=node, deletion_asked_at=asked_at)
        .deleting(GRACE_OVER)
        .build()
        for i, node in enumerate(nodes)
    ]
    assert find_stuck_deletions([stays, *reversed(pods)], NOW + seconds) == StuckDeletions(want, want_next)


REFUSED = 'admission webhook "protect" denied the request: digits-trainer-1 is protected'


def refused() -> World:
    """A trainer has failed and is to be replaced, and the API server does not let it go."""
    world = running(restart="OnFailure", scope="Pod").set("digits-trainer-1", "failed")
    plan = look(world)
    assert deleted(plan) == ["digits-trainer-1"]
    world.job = after(world.job, plan)
    world.job = after(world.job, report_delete_failure(world.job, NOW, REFUSED))
    return world


def look(world: World) -> Plan:
    return decide(world.job, observe(*world.pods.values(), *world.services.values()))


def test_what_the_api_server_said_to_a_delete_stays_for_as_long_as_it_is_tried() -> None:
    world = refused()
    assert look(world).status is None
    assert condition(world.job.status, "Running") == ("False", "FailedDelete", REFUSED)


def test_it_goes_with_the_object_whatever_the_phase() -> None:
    world = refused().lose("digits-trainer-1")
    plan = look(world)
    assert status_of(plan).phase == "Restarting"
    assert condition(status_of(plan), "Running")[1] == "Restarting"
    assert REFUSED not in status_of(plan).message


def test_a_refusal_after_the_end_is_told_by_an_event_and_leaves_the_end_as_it_is() -> None:
    """Of the job itself, whose TTL is over, or of a TensorBoard, whose time is."""
    world = running(restart="Never").all("succeeded").settle()
    assert world.job.status.phase == "Succeed"
    plan = report_delete_failure(world.job, NOW, REFUSED)
    assert plan.status is None
    assert [(event.type, event.reason, event.message) for event in plan.events] == [
        ("Warning", "FailedDelete", REFUSED)
    ]
