"""Nodes in trouble, where it takes GPUs or virtual time to see what becomes of a job. The rest is in
`kubelet_scenarios`."""

from __future__ import annotations

from typing import Any

import pytest

from localcluster.kubelet.node import NodeConfig
from tests.scenarios.world import World, job, play, role
from tests.support.tiers import one_in
from tjworker.settings import Settings

GPU = "nvidia.com/gpu"
GRACE_SECONDS = Settings().node_failure_grace_seconds


def on_gpus(replicas: int, policy: str = "OnNodeFail", **told: Any) -> dict[str, Any]:
    made = role(replicas, annotations=play(**told), restartPolicy=policy, restartScope="Pod")
    made["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    return job({"trainer": made})


@pytest.fixture
def world() -> World:
    made = World(nodes=[NodeConfig(f"node-{number}", gpus=2) for number in range(2)], seed=1)
    made.apply(on_gpus(2)).run().advance(5)
    assert made.phase() == "Running"
    return made


def test_a_device_plugin_that_restarts_takes_no_pod(world: World) -> None:
    before = world.uids()
    for node in ("node-0", "node-1"):
        world.fail_node(node, "DevicePlugin")
    world.stays("nobody is replaced", lambda: world.uids() == before, for_seconds=GRACE_SECONDS - 5)
    for node in ("node-0", "node-1"):
        world.recover_node(node)
    world.stays("nobody is replaced", lambda: world.uids() == before, for_seconds=2 * GRACE_SECONDS)


def test_gpus_that_stay_away_are_a_fault_of_their_node(world: World) -> None:
    before = world.uids()
    node = world.pods()["digits-trainer-0"]["spec"]["nodeName"]
    others = {n: u for n, u in before.items() if world.pods()[n]["spec"]["nodeName"] != node}
    world.fail_node(node, "DevicePlugin")
    world.until(
        "its pod is another one",
        lambda: world.uids().get("digits-trainer-0", before["digits-trainer-0"]) != before["digits-trainer-0"],
        within_seconds=2 * GRACE_SECONDS,
    )
    assert others.items() <= world.uids().items()
    counts = world.status()["restartCounts"]["trainer"]
    assert (counts["application"], counts["node"] >= 1) == (0, True)


@pytest.mark.parametrize("reason", one_in(3, ["UnexpectedAdmissionError", "TopologyAffinityError", "OutOfcpu"]))
def test_a_node_that_turns_pods_away_for_an_hour_costs_ten_requests_a_minute_at_most(reason: str) -> None:
    world = World(nodes=1, seed=1)
    world.fail_node("node-0", f"Reject={reason}")
    world.apply(job({"trainer": role(1, ports=(), restartPolicy="OnFailure", restartLimit=2)})).run()
    world.advance(3600, step_seconds=5)
    requests = world.requests()
    assert requests["create pods"] <= 60, requests
    assert sum(requests.values()) <= 600, requests
    assert world.phase() != "Failed"
    world.recover_node("node-0")
    world.until("it runs when it is let in", lambda: world.phase() == "Running", within_seconds=400)
