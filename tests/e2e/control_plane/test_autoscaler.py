"""Elastic jobs share a real cluster: the story of `tests.scenarios.elastic` with real scheduler, API server and
operator; the pods are played."""

from __future__ import annotations

import json

from tests.e2e.control_plane.install import kubectl
from tests.e2e.control_plane.operator import NODE_CPUS, NODES, Operator
from tests.e2e.control_plane.world import RealWorld
from tests.scenarios.elastic import WEB, foreign, two_jobs_and_a_burst_of_others_share_it

PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": WEB},
    "value": 1000,
    "preemptionPolicy": "Never",
}


def test_two_jobs_and_a_burst_of_others_share_the_cluster(operator: Operator, world: RealWorld) -> None:
    kubectl(operator.plane.kubeconfig, "apply", "-f", "-", stdin=json.dumps(PRIORITY))
    # The autoscaler plans the whole cluster. All nodes but one are taken by others: eight CPUs are left.
    fillers = [f"filler-{i}" for i in range(NODES - 1)]
    for name in fillers:
        world.create_pod(foreign(name, str(NODE_CPUS)))
    world.until(
        "the rest of the cluster is taken", lambda: all(world.pods()[name]["spec"].get("nodeName") for name in fillers)
    )
    with operator.autoscaling():
        two_jobs_and_a_burst_of_others_share_it(world, slack_seconds=20)
