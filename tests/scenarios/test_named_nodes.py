"""Templates that name their node: one that does not exist, or one beside scheduling gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.scenarios.world import World, job, role

MOST_A_MINUTE = 10
"""Requests for a pod that has no rest otherwise."""


@dataclass(frozen=True)
class Named:
    spec: dict[str, Any]
    want_phase: str
    want_words: str


NAMED = {
    "a node that does not exist: its pods are collected after 40 s each, and made again": Named(
        {"nodeName": "nowhere"}, "Pending", "pod digits-trainer-0 is waiting for a node"
    ),
    "a node beside gates: kube-apiserver refuses the pod, and the job fails in its words": Named(
        {"nodeName": "node-0", "schedulingGates": [{"name": "example.com/wait"}]},
        "Failed",
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ),
}


@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED.keys())
def test_a_template_that_names_its_node_asks_little_of_the_api_server(case: Named) -> None:
    manifest = job({"trainer": role(1)})
    manifest["spec"]["replicaSpecs"]["trainer"]["template"]["spec"].update(case.spec)
    world = World(nodes=1, seed=1)
    world.apply(manifest).run()
    for _ in range(5):
        before = len(world.transport.requests)
        world.advance(60)
        assert len(world.transport.requests) - before <= MOST_A_MINUTE
    assert world.phase() == case.want_phase
    told = world.get(next(iter(world._applied.values())), "digits")["status"]["conditions"]
    assert any(case.want_words in condition["message"] for condition in told), told
