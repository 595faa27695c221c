"""Elastic jobs share a real cluster: the story of `tests.scenarios.elastic` with real scheduler, API server and
operator; the pods are played."""

from __future__ import annotations

import json

from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import NODE_CPUS, NODES, Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.elastic import (
    TICK_SECONDS,
    WEB,
    elastic,
    foreign,
    trainers,
    two_jobs_and_a_burst_of_others_share_it,
    wants,
)

PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": WEB},
    "value": 1000,
    "preemptionPolicy": "Never",
}


def take_all_nodes_but_one(world: RealWorld) -> None:
    """The autoscaler plans the whole cluster. Eight CPUs are left."""
    # A pod of an earlier world whose namespace still ends would ask for room, and the jobs would give way to it.
    world.until("the pods of earlier worlds are gone", lambda: world.is_alone)
    fillers = [f"filler-{i}" for i in range(NODES - 1)]
    for name in fillers:
        world.create_pod(foreign(name, str(NODE_CPUS)))
    world.until(
        "the rest of the cluster is taken", lambda: all(world.pods()[name]["spec"].get("nodeName") for name in fillers)
    )


def test_two_jobs_and_a_burst_of_others_share_the_cluster(operator: Operator, world: RealWorld) -> None:
    kubectl(operator.plane.kubeconfig, "apply", "-f", "-", stdin=json.dumps(PRIORITY))
    take_all_nodes_but_one(world)
    with operator.autoscaling():
        two_jobs_and_a_burst_of_others_share_it(world)


def test_pods_that_no_node_could_hold_make_nobody_smaller_and_real_demand_does(
    operator: Operator, world: RealWorld
) -> None:
    take_all_nodes_but_one(world)
    with operator.autoscaling():
        world.apply(elastic("first", 1, 1, 10))
        world.until("it fills the node", lambda: len(trainers(world, "first")) > NODE_CPUS / 2)
        world.until("and rests", lambda: world.phase("first") == "Running")
        full = wants(world, "first")
        world.create_pod(foreign("huge", "500"))
        world.create_pod(foreign("picky", "2", nodeSelector={"there": "is-none"}))
        world.until(
            "the scheduler has refused both", lambda: all(_unschedulable(world, name) for name in ("huge", "picky"))
        )
        world.stays("nobody gives way", lambda: wants(world, "first") >= full, for_seconds=3 * TICK_SECONDS)
        world.create_pod(foreign("web-0", "3"))
        world.until("real demand has its room", lambda: world.pods()["web-0"]["status"].get("phase") == "Running")
        record = world.status("first")["scaleRecords"][0]
        assert record["cause"] == "need", record
        assert f"room is needed for {world.namespace}/web-0 " in record["reason"], record


def _unschedulable(world: RealWorld, name: str) -> bool:
    conditions = world.pods()[name]["status"].get("conditions", ())
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)
