"""Nodes that fall silent, come back, or are taken away, and the end of their pods."""

from __future__ import annotations

import pytest

from localcluster.cluster import LocalCluster
from localcluster.objects import condition
from localcluster.wire import Json
from localcluster_tests.unit.world import PODS, SETS, conditions, get, phases, pod, pods, replica_set


def ready(cluster: LocalCluster, name: str) -> str:
    ready = condition(cluster.client.get(f"/api/v1/nodes/{name}"), "Ready")
    return ready["status"] if ready else ""


def taints(cluster: LocalCluster, name: str) -> list[str]:
    spec = cluster.client.get(f"/api/v1/nodes/{name}")["spec"]
    return sorted(f"{t['key']}:{t['effect']}" for t in spec.get("taints") or ())


def test_a_silent_node_is_unknown_after_40_seconds_and_not_before() -> None:
    cluster = LocalCluster(nodes=2)
    cluster.fail_node("node-0")
    cluster.advance(29)
    assert ready(cluster, "node-0") == "True"
    cluster.advance(22)
    assert (ready(cluster, "node-0"), ready(cluster, "node-1")) == ("Unknown", "True")
    assert taints(cluster, "node-0") == [
        "node.kubernetes.io/unreachable:NoExecute",
        "node.kubernetes.io/unreachable:NoSchedule",
    ]


def test_its_pods_become_not_ready_then_terminate_after_300_seconds_and_run_elsewhere() -> None:
    cluster = LocalCluster(nodes=2)
    cluster.client.create(SETS, replica_set("web", 2))
    cluster.run_until_idle()
    cluster.fail_node("node-0")
    cluster.advance(60)
    assert sorted(c["status"] for p in pods(cluster) if (c := condition(p, "Ready"))) == ["False", "True"]
    assert phases(cluster) == ["Running", "Running"]
    cluster.advance(300)
    assert phases(cluster) == ["-Running", "Running", "Running"]
    stuck = next(p for p in pods(cluster) if "deletionTimestamp" in p["metadata"])
    assert conditions(stuck)["DisruptionTarget"] == "True/DeletionByTaintManager"
    assert {
        p["spec"]["nodeName"] for p in pods(cluster) if p is not stuck and "deletionTimestamp" not in p["metadata"]
    } == {"node-1"}


def test_a_node_that_comes_back_is_ready_untainted_and_ends_what_was_deleted() -> None:
    cluster = LocalCluster(nodes=2)
    cluster.client.create(SETS, replica_set("web", 2))
    cluster.run_until_idle()
    cluster.fail_node("node-0")
    cluster.advance(400)
    cluster.recover_node("node-0")
    cluster.run_until_idle()
    assert ready(cluster, "node-0") == "True"
    assert taints(cluster, "node-0") == []
    assert phases(cluster) == ["Running", "Running"]


def test_pods_of_a_node_that_was_taken_away_fail_and_go_after_the_quarantine() -> None:
    cluster = LocalCluster(nodes=2)
    cluster.client.create(SETS, replica_set("web", 2))
    cluster.run_until_idle()
    cluster.fail_node("node-0", "gone")
    cluster.advance(30)
    assert get(cluster, "/api/v1/nodes/node-0") is None
    assert phases(cluster) == ["Running", "Running"]
    cluster.advance(15)
    assert {p["spec"]["nodeName"] for p in pods(cluster)} == {"node-1"}
    assert phases(cluster) == ["Running", "Running"]


def test_every_pod_that_is_put_on_a_node_that_never_was_has_the_quarantine() -> None:
    cluster = LocalCluster(nodes=1)
    for name in ("first", "second", "third"):
        cluster.client.create(PODS, pod(name, nodeName="nowhere"))
        cluster.advance(38)
        assert [p["metadata"]["name"] for p in pods(cluster)] == [name]
        cluster.advance(4)
        assert pods(cluster) == []


def test_the_annotation_on_the_node_does_the_same_as_the_method() -> None:
    cluster = LocalCluster(nodes=1)
    cluster.client.patch("/api/v1/nodes/node-0", {"metadata": {"annotations": {"localcluster/fail": "NotReady"}}})
    cluster.advance(60)
    assert ready(cluster, "node-0") == "Unknown"
    cluster.client.patch("/api/v1/nodes/node-0", {"metadata": {"annotations": {"localcluster/fail": None}}})
    cluster.run_until_idle()
    assert ready(cluster, "node-0") == "True"


def test_a_force_deleted_pod_leaves_a_silent_node_at_once() -> None:
    cluster = LocalCluster(nodes=1)
    cluster.client.create(PODS, pod("a"))
    cluster.run_until_idle()
    cluster.fail_node("node-0")
    cluster.client.delete(f"{PODS}/a")
    cluster.advance(60)
    assert phases(cluster) == ["-Running"]
    cluster.client.delete(f"{PODS}/a", {"gracePeriodSeconds": 0})
    cluster.run_until_idle()
    assert phases(cluster) == []


MAINTENANCE = {"key": "maintenance", "effect": "NoExecute"}
REPAIR = {"key": "repair", "effect": "NoExecute"}
NO_MORE_PODS = {"key": "maintenance", "effect": "NoSchedule"}
HISTORIES: dict[str, tuple[list[tuple[int, list[Json]]], int]] = {
    "One taint counts from when it came": ([(0, [MAINTENANCE])], 0),
    "One that is removed and set again starts from zero": ([(0, [MAINTENANCE]), (5, []), (100, [MAINTENANCE])], 105),
    "So it does each time": ([(0, [MAINTENANCE]), (9, []), (9, [MAINTENANCE]), (9, []), (9, [MAINTENANCE])], 36),
    "While one evicts no pod the time does not run": (
        [(0, [MAINTENANCE]), (5, [NO_MORE_PODS]), (100, [MAINTENANCE, NO_MORE_PODS])],
        105,
    ),
    "One that joins another restarts no time": ([(0, [MAINTENANCE]), (5, [MAINTENANCE, REPAIR])], 0),
}


@pytest.mark.parametrize("sentence", HISTORIES)
def test_since_when_the_seconds_of_a_toleration_count(sentence: str) -> None:
    """`kubectl taint` writes no time."""
    history, since = HISTORIES[sentence]
    cluster = LocalCluster(nodes=1)
    for_ten = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
    cluster.client.create(PODS, pod("a", tolerations=[for_ten]))
    cluster.run_until_idle()
    now = 0
    for wait, put in history:
        cluster.advance(wait)
        now += wait
        cluster.client.patch("/api/v1/nodes/node-0", {"spec": {"taints": put}})
        cluster.run_until_idle()
    cluster.advance(since + 9 - now)
    assert phases(cluster) == ["Running"]
    cluster.advance(2)
    assert phases(cluster) in ([], ["-Running"])
