"""What the comparison of Redis with the API server finds, over an in-memory store and lists of a few objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.chaos.projection import differences
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_projection import MemoryProjection
from tests.support.memory_store import MemoryStore
from tests.support.scripted_api import JOB, pod
from tjworker.api.resources import NODES, PODS
from tjworker.base import GroupResource, Transient
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NOT_INSTALLED
from tjworker.kube.port import ListPage
from watcher.projection import project, project_node

Objects = Mapping[GroupResource, Sequence[dict[str, Any]]]
"""Resource -> what there is of it."""


def job(rv: int = 2, phase: str = "Running") -> dict[str, Any]:
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "spec": {},
        "status": {"phase": phase},
        "metadata": {"name": JOB, "namespace": "default", "uid": "job-uid", "resourceVersion": str(rv)},
    }


def node(rv: int = 3, ready: str = "True") -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "uid": "node-uid", "resourceVersion": str(rv)},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


class Lists:
    """As much of a KubeClient as is asked: lists. What it has none of is not installed."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def list_page(self, resource: GroupResource) -> ListPage:
        if resource not in self._objects:
            raise Transient("the server could not find the requested resource", reason=NOT_INSTALLED, status=404)
        return ListPage(self._objects[resource], 99)


def projected(objects: Objects) -> MemoryProjection:
    projection = MemoryStore().projection
    projection.lead(1)
    for resource, found in objects.items():
        for one in found:
            if resource == NODES:
                projection.apply_nodes(1, {one["metadata"]["name"]: project_node(one).change.record})
            elif (change := project(resource, one)) is not None:
                projection.apply(1, [change.change])
    return projection


@dataclass(frozen=True)
class Case:
    there: Objects
    held: Objects
    want: list[str] = field(default_factory=list)
    """How each line begins."""


BOTH: Objects = {AITRAININGJOBS: [job()], PODS: [pod("a", 4), pod("b", 5)], NODES: [node()]}
OF_IT = f"of {AITRAININGJOBS}/default/{JOB}"
CASES: dict[str, Case] = {
    "What is the same has no difference.": Case(BOTH, BOTH),
    "A stranger's pod is not held, and none of our business.": Case(
        {**BOTH, PODS: [*BOTH[PODS], pod("x", 6, ours=False)]}, BOTH
    ),
    "A node's heartbeat is no difference.": Case({**BOTH, NODES: [node(rv=9)]}, BOTH),
    "A pod that Redis does not have is missing.": Case(
        BOTH, {**BOTH, PODS: [pod("a", 4)]}, [f"pods b {OF_IT}: Redis has None"]
    ),
    "A pod that only Redis has is a phantom.": Case(
        {**BOTH, PODS: [pod("a", 4)]}, BOTH, [f"pods b {OF_IT}: Redis has b"]
    ),
    "A pod that was made again under its name is another one.": Case(
        {**BOTH, PODS: [pod("a", 4), pod("b", 5, uid="another")]}, BOTH, [f"pods b {OF_IT}"]
    ),
    "A pod of an older version is old.": Case({**BOTH, PODS: [pod("a", 4), pod("b", 8)]}, BOTH, [f"pods b {OF_IT}"]),
    "A node that is not ready any more is not the one that Redis has.": Case(
        {**BOTH, NODES: [node(ready="False")]}, BOTH, ["nodes n1 of the cluster"]
    ),
    "A job that is gone is held with all that it had.": Case(
        {NODES: [node()]}, BOTH, [f"{AITRAININGJOBS} {JOB} {OF_IT}", f"pods a {OF_IT}", f"pods b {OF_IT}"]
    ),
    "Of a finished job nothing but itself is held.": Case(
        {**BOTH, AITRAININGJOBS: [job(phase="Succeed")]}, {AITRAININGJOBS: [job(phase="Succeed")], NODES: [node()]}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_differences(name: str) -> None:
    case = CASES[name]
    found = differences(cast(KubeClient, Lists(case.there)), projected(case.held))
    assert len(found) == len(case.want), found
    assert [line for line, want in zip(found, case.want, strict=True) if not line.startswith(want)] == []
