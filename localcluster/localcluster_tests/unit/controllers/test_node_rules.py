"""Taints that a node's state brings, whom taints evict and when, and pods that no kubelet will end: every combination.

https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
https://kubernetes.io/docs/concepts/architecture/nodes/
"""

from __future__ import annotations

from itertools import product

import pytest

from localcluster.cluster import LocalCluster
from localcluster.controllers.nodelifecycle import eviction_due
from localcluster.objects import timestamp
from localcluster.wire import Json
from localcluster_tests.unit.world import PODS, SETS, fake, get, pod, replica_set

NODE = "/api/v1/nodes/node-0"
READY = {"True": set(), "False": {"not-ready"}, "Unknown": {"unreachable"}}
OTHERS = {"key": "gpu", "effect": "NoSchedule", "value": "yes"}


def told_by_its_kubelet(cluster: LocalCluster, status: str) -> None:
    """The state of a node whose kubelet is silent, before this controller has noticed."""
    cluster.fail_node("node-0")
    ready = {"type": "Ready", "status": status, "lastTransitionTime": timestamp(cluster.clock())}
    cluster.client.patch(f"{NODE}/status", {"status": {"conditions": [ready]}})
    cluster.run_until_idle()


@pytest.mark.parametrize(("status", "cordoned"), list(product(READY, (False, True))))
def test_a_node_has_the_taints_of_its_state_beside_those_of_others(status: str, cordoned: bool) -> None:
    cluster = LocalCluster(nodes=1)
    spec = {"taints": [OTHERS], "unschedulable": True} if cordoned else {"taints": [OTHERS]}
    cluster.client.patch(NODE, {"spec": spec})
    told_by_its_kubelet(cluster, status)
    want = {("gpu", "NoSchedule", "yes")}
    want |= {(f"node.kubernetes.io/{key}", e, "") for key in READY[status] for e in ("NoSchedule", "NoExecute")}
    want |= {("node.kubernetes.io/unschedulable", "NoSchedule", "")} if cordoned else set()
    taints = cluster.client.get(NODE)["spec"]["taints"]
    assert {(t["key"], t["effect"], t.get("value", "")) for t in taints} == want
    assert len(taints) == len(want)
    dated = {t["key"] for t in taints if "timeAdded" in t}
    assert dated == {f"node.kubernetes.io/{key}" for key in READY[status]}
    cluster.client.patch(NODE, {"spec": {"unschedulable": None}})
    cluster.recover_node("node-0")
    cluster.run_until_idle()
    assert [t["key"] for t in cluster.client.get(NODE)["spec"]["taints"]] == ["gpu"]


ZERO = 1_767_268_800.0
NOT_READY, UNREACHABLE, OWN = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "maintenance"


def taint(key: str, since: float | None = 0.0, value: str = "") -> Json:
    return {"key": key, "effect": "NoExecute", "value": value} | (
        {} if since is None else {"timeAdded": timestamp(ZERO + since)}
    )


def tolerating(key: str = "", seconds: int | None = None, **more: str) -> Json:
    made = {"operator": "Exists", **({"key": key} if key else {}), **more}
    return made if seconds is None else {**made, "tolerationSeconds": seconds}


EVICTIONS: dict[str, tuple[list[Json], list[Json], float | None]] = {
    "no taint evicts no pod": ([], [], None),
    "one that is not tolerated evicts at once": ([taint(OWN)], [], 50),
    "one that says since when, and is not tolerated, too": ([taint(OWN, -100)], [], 50),
    "a node that is not ready evicts after five minutes": ([taint(NOT_READY)], [], 300),
    "an unreachable one, too": ([taint(UNREACHABLE)], [], 300),
    "counted from when the taint was put on": ([taint(UNREACHABLE, 20)], [], 320),
    "or was first seen, where it does not say": ([taint(UNREACHABLE, None)], [], 350),
    "tolerated for ever": ([taint(OWN)], [tolerating(OWN)], None),
    "tolerated for a while": ([taint(OWN)], [tolerating(OWN, 7)], 7),
    "for no time": ([taint(OWN)], [tolerating(OWN, 0)], 0),
    "for less than none": ([taint(OWN)], [tolerating(OWN, -5)], 0),
    "another one is tolerated": ([taint(OWN)], [tolerating("other", 7)], 50),
    "of several tolerations with seconds the shortest": ([taint(OWN)], [tolerating(OWN, 9), tolerating("", 4)], 4),
    "one without seconds does not prolong it": ([taint(OWN)], [tolerating(OWN, 9), tolerating("")], 9),
    "of two taints the first to evict": ([taint(OWN, 0), taint("b", 5)], [tolerating("", 10)], 10),
    "one that is tolerated for ever does not hide another": ([taint(OWN), taint("b")], [tolerating("b")], 50),
    "both tolerated for ever": ([taint(OWN), taint("b")], [tolerating()], None),
    "a toleration of another effect is none": ([taint(OWN)], [tolerating(OWN, effect="NoSchedule")], 50),
    "one of its effect is": ([taint(OWN)], [tolerating(OWN, effect="NoExecute")], None),
    "an own toleration replaces the five minutes": ([taint(UNREACHABLE)], [tolerating(UNREACHABLE, 30)], 30),
}


@pytest.mark.parametrize("sentence", EVICTIONS)
def test_when_taints_evict(sentence: str) -> None:
    """`50` is when the taints were first seen."""
    taints, tolerations, want = EVICTIONS[sentence]
    due = eviction_due({"spec": {"tolerations": tolerations}}, taints, ZERO + 50)
    assert (None if due is None else due - ZERO) == want


# -- pods that no kubelet will end -----------------------------------------------------------------
OUT = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute", "value": "nodeshutdown"}


@pytest.mark.parametrize(("out", "silent", "deleted"), list(product((False, True), repeat=3)))
def test_a_node_out_of_service_lets_its_deleted_pods_go(out: bool, silent: bool, deleted: bool) -> None:
    """Not while it is ready, and no pod that was not deleted: 'pods that do not tolerate it are evicted'."""
    cluster = LocalCluster(nodes=1)
    cluster.client.create(
        PODS, pod("a", annotations=fake(terminate_seconds="never"), tolerations=[{"operator": "Exists"}])
    )
    cluster.run_until_idle()
    if silent:
        cluster.fail_node("node-0")
        cluster.advance(60)
    if out:
        taints = cluster.client.get(NODE)["spec"].get("taints") or []
        cluster.client.patch(NODE, {"spec": {"taints": [*taints, OUT]}})
    if deleted:
        cluster.client.delete(f"{PODS}/a")
    cluster.advance(5)
    assert (get(cluster, f"{PODS}/a") is None) is (out and silent and deleted)


# -- ReplicaSets and the TTL of Jobs ---------------------------------------------------------------
@pytest.mark.parametrize(("seconds", "want"), [(9, 0), (11, 2)])
def test_a_pod_is_available_once_it_has_been_ready_for_long_enough(seconds: float, want: int) -> None:
    cluster = LocalCluster(nodes=1)
    body = replica_set("web", 2)
    body["spec"]["minReadySeconds"] = 10
    cluster.client.create(SETS, body)
    cluster.run_until_idle()
    cluster.advance(seconds)
    status = cluster.client.get(f"{SETS}/web")["status"]
    assert (status["readyReplicas"], status.get("availableReplicas", 0), status["replicas"]) == (2, want, 2)
