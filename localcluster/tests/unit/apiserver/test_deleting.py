"""Deleting a pod: who gets its grace. As `CheckGracefulDelete` of Kubernetes' pod strategy has it."""

from __future__ import annotations

import pytest

from unit.apiserver.world import PODS, World, pod

STAYS = {
    "it runs": ({"phase": "Running"}, True),
    "it is being started": ({"phase": "Pending"}, True),
    "it has succeeded": ({"phase": "Succeeded"}, False),
    "it has failed": ({"phase": "Failed"}, False),
}


@pytest.mark.parametrize(("status", "want_grace"), STAYS.values(), ids=STAYS.keys())
def test_a_pod_on_a_node_stays_for_its_grace_unless_it_has_ended(status: dict[str, str], want_grace: bool) -> None:
    world = World()
    made = pod("a")
    made["spec"]["nodeName"] = "node-0"
    world.json("POST", PODS, made)
    world.json("PATCH", f"{PODS}/a/status", {"status": status}, "application/merge-patch+json")
    assert world.ask("DELETE", f"{PODS}/a").status == 200
    assert (world.ask("GET", f"{PODS}/a").status == 200) is want_grace


def test_a_pod_that_has_no_node_yet_goes_at_once() -> None:
    world = World()
    world.json("POST", PODS, pod("a"))
    world.ask("DELETE", f"{PODS}/a")
    assert world.ask("GET", f"{PODS}/a").status == 404
