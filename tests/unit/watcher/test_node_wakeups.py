"""Nodes: what is written of them, and which jobs they wake."""

from __future__ import annotations

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import KEY, NODE, changed
from tests.unit.watcher.writing import Bench, gone, job, pod, settle
from tjworker.api.records_json import decode
from tjworker.api.resources import NODES, PODS
from tjworker.base import JobKey
from watcher.projection import Projected, project_node


def job_beside_a_node(pod_on: str = "node-a") -> Bench:
    """A job with one pod, and node-a."""
    bench = Bench()
    bench.sync()
    bench.put(AITRAININGJOBS, job())
    bench.put(PODS, pod(node=pod_on))
    bench.put(NODES, project_node(NODE))
    return bench


@pytest.mark.parametrize("where", ["node-a", "node-b"])
def test_a_node_that_falls_ill_wakes_the_jobs_with_pods_there_and_no_others(where: str) -> None:
    bench = job_beside_a_node(where)
    settle(bench)
    bench.put(NODES, project_node(changed("status.conditions.0.status", "False")))
    assert bench.published == ([KEY] if where == "node-a" else [])


TOLD: dict[str, tuple[str, object, bool]] = {
    "its readiness": ("status.conditions.0.status", "True", True),
    "since when it is not ready": ("status.conditions.0.lastTransitionTime", "2026-01-01T00:00:31Z", False),
    "a heartbeat": ("status.conditions.0.lastHeartbeatTime", "2026-01-01T00:09:00Z", False),
    "its taint": ("spec.taints", [], True),
    "a cordon": ("spec.unschedulable", False, True),
    "a device": ("status.allocatable", {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "7"}, True),
    "its memory": ("status.allocatable.memory", "7Gi", False),
}
"""What changes of a node, and whether its jobs must hear of it at once. What they have room for is the autoscaler's."""


@pytest.mark.parametrize(("path", "value", "wakes"), TOLD.values(), ids=TOLD.keys())
def test_what_of_a_node_its_jobs_hear_of_at_once(path: str, value: object, wakes: bool) -> None:
    bench = job_beside_a_node()
    settle(bench)
    node = changed(path, value)
    node["metadata"]["resourceVersion"] = "10"
    bench.put(NODES, project_node(node))
    assert bench.published == ([KEY] if wakes else [])


def test_a_node_that_vanishes_wakes_the_jobs_with_pods_there() -> None:
    bench = job_beside_a_node()
    settle(bench)
    bench.put(NODES, gone(project_node(NODE), 11))
    assert bench.published == [KEY]
    assert bench.store.projection.nodes(["node-a"]) == {}


NODES_AT_START: dict[str, tuple[list[Projected], list[str]]] = {
    "A watcher that starts over unchanged nodes wakes no job.": ([project_node(NODE)], []),
    "A node that fell ill while none ran wakes its jobs.": ([project_node(changed("spec.taints", []))], [KEY]),
    "A node that went away while none ran wakes its jobs.": ([], [KEY]),
}


@pytest.mark.parametrize("name", NODES_AT_START)
@pytest.mark.parametrize("pods_first", [True, False])
def test_nodes_at_the_start_of_a_watcher(name: str, pods_first: bool) -> None:
    nodes, want = NODES_AT_START[name]
    first = Bench()
    first.sync()
    first.put(AITRAININGJOBS, job())
    first.put(PODS, pod())
    first.put(NODES, project_node(NODE))
    settle(first)
    second = Bench(first.store, token=2)
    second.put(AITRAININGJOBS, job(), position=50, listed=True, existing=frozenset({(JobKey(KEY), "digits")}))
    lists = [
        (PODS, [pod()], frozenset({(JobKey(KEY), "p0")})),
        (NODES, nodes, frozenset((JobKey(""), node.change.name) for node in nodes)),
    ]
    for source, changes, existing in lists if pods_first else reversed(lists):
        second.put(source, *changes, position=50, listed=True, existing=existing)
    assert second.published == want


def test_a_projected_node_that_cannot_be_read_is_written_anew() -> None:
    bench = Bench()
    bench.store.projection.apply_nodes(1, {"node-a": b"[1, 2]"})
    bench.put(NODES, project_node(NODE))
    assert decode(NODES, bench.store.projection.nodes(["node-a"])["node-a"]) == project_node(NODE).node_record
