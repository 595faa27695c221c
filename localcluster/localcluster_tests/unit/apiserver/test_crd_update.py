"""A CRD that is there is applied again, changed: every upgrade of an operator does it."""

from __future__ import annotations

import copy

from localcluster.wire import Json
from localcluster_tests.unit.apiserver.world import DEFINITION, World

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "rockets.space.example.com"


def crd(description: str) -> Json:
    changed = copy.deepcopy(DEFINITION)
    for version in changed["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["description"] = description
    return changed


def test_a_crd_with_its_own_finalizer_can_be_changed() -> None:
    world = World()
    patch = {"content_type": "application/apply-patch+yaml", "fieldManager": "kubectl"}
    assert world.ask("PATCH", f"{CRDS}/{NAME}", crd("old"), **patch).status == 201
    world.advance(1)
    assert world.json("GET", f"{CRDS}/{NAME}")["metadata"]["finalizers"] == [
        "customresourcecleanup.apiextensions.k8s.io"
    ]
    answer = world.ask("PATCH", f"{CRDS}/{NAME}", crd("new"), **patch)
    assert answer.status == 200, answer.body
    assert (
        world.json("GET", f"{CRDS}/{NAME}")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] == "new"
    )
