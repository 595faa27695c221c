"""A pod that is asked to go and stays: when that is reported, and in which words."""

from __future__ import annotations

import pytest

from tests.support.builders import make_job, make_pod
from tests.unit.tjworker.reconcile.passes import NOW, NOW_TEXT
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile.policies.stuck_deletion import StuckDeletions, find_stuck_deletions

GRACE_OVER = NOW_TEXT
WAS = f"was to be gone by {GRACE_OVER}"
WHO = "a finalizer holds it (see its metadata.finalizers), or the kubelet of its node does not answer"
HELD: dict[str, tuple[list[str], float, str, float | None]] = {
    # Where each pod that is asked to go stands ('' nowhere), seconds since its grace was over.
    "none is asked to go": ([], 0, "", None),
    "its grace is just over": (["node-a"], 0, "", 10),
    "the kubelet still has a second": (["node-a"], 9, "", 1),
    "it should be gone": (["node-a"], 10, f"pod p0 on node node-a {WAS} and is still there: {WHO}", None),
    "it never had a node": ([""], 10, f"pod p0 {WAS} and is still there: {WHO}", None),
    "two should be": (
        ["node-a", "node-b"],
        60,
        f"pod p0 on node node-a {WAS} and is still there, and 1 more: {WHO}",
        None,
    ),
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
