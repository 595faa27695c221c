"""ReplicaSets in virtual time: keeping pods alive, adopting, releasing, and who goes first."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from localcluster.cluster import LocalCluster
from localcluster.controllers.common import deletion_order
from localcluster.objects import controller_of
from localcluster.wire import Json
from tests.unit.localcluster.world import PODS, SETS, events, fake, phases, pod, pods, replica_set


def test_it_keeps_as_many_pods_as_asked_and_counts_them() -> None:
    cluster = LocalCluster(nodes=2)
    cluster.client.create(SETS, replica_set("web", 3))
    cluster.run_until_idle()
    status = cluster.client.get(f"{SETS}/web")["status"]
    assert phases(cluster) == ["Running"] * 3
    assert {k: status.get(k) for k in ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")} == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
    }
    assert status["observedGeneration"] == cluster.client.get(f"{SETS}/web")["metadata"]["generation"]
    assert all(p["metadata"]["name"].startswith("web-") for p in pods(cluster))


def test_a_deleted_pod_is_replaced_and_a_smaller_set_deletes() -> None:
    cluster = LocalCluster(nodes=2)
    cluster.client.create(SETS, replica_set("web", 3))
    cluster.run_until_idle()
    gone = pods(cluster)[0]["metadata"]["name"]
    cluster.client.delete(f"{PODS}/{gone}")
    cluster.run_until_idle()
    assert len(pods(cluster)) == 3
    assert gone not in [p["metadata"]["name"] for p in pods(cluster)]
    cluster.client.patch(f"{SETS}/web", {"spec": {"replicas": 1}})
    cluster.run_until_idle()
    assert len(pods(cluster)) == 1
    assert sum(e.startswith("SuccessfulDelete") for e in events(cluster, "web")) == 2


def test_an_orphan_that_matches_is_adopted_and_counts() -> None:
    cluster = LocalCluster()
    cluster.client.create(PODS, pod("orphan", labels={"app": "web"}, restart="Always"))
    cluster.run_until_idle()
    cluster.client.create(SETS, replica_set("web", 2))
    cluster.run_until_idle()
    assert len(pods(cluster)) == 2
    owner = controller_of(cluster.client.get(f"{PODS}/orphan"))
    assert owner is not None
    assert owner["name"] == "web"


def test_a_pod_that_no_longer_matches_is_released_and_replaced() -> None:
    cluster = LocalCluster()
    cluster.client.create(SETS, replica_set("web", 1))
    cluster.run_until_idle()
    name = pods(cluster)[0]["metadata"]["name"]
    cluster.client.patch(f"{PODS}/{name}", {"metadata": {"labels": {"app": "other"}}})
    cluster.run_until_idle()
    assert len(pods(cluster)) == 2
    assert controller_of(cluster.client.get(f"{PODS}/{name}")) is None


def test_a_pod_of_another_controller_is_never_taken() -> None:
    cluster = LocalCluster()
    cluster.client.create(SETS, replica_set("one", 1))
    cluster.run_until_idle()
    two = replica_set("two", 1)
    two["spec"]["selector"] = {"matchLabels": {"app": "one"}}
    two["spec"]["template"]["metadata"]["labels"] = {"app": "one"}
    cluster.client.create(SETS, two)
    cluster.run_until_idle()
    assert sorted((controller_of(p) or {})["name"] for p in pods(cluster)) == ["one", "two"]


def _made(name: str, **facts: object) -> Json:
    annotations = {"controller.kubernetes.io/pod-deletion-cost": str(facts["cost"])} if "cost" in facts else {}
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": facts.get("ready", "2026-01-01T00:00:00Z")}]
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "annotations": annotations,
            "creationTimestamp": facts.get("created", "2026-01-01T00:00:00Z"),
        },
        "spec": {"nodeName": facts.get("node", "n")},
        "status": {
            "phase": facts.get("phase", "Running"),
            "conditions": conditions if facts.get("ready", True) else [],
            "containerStatuses": [{"restartCount": facts.get("restarts", 0)}],
        },
    }


@dataclass(frozen=True)
class Order:
    first: Json
    then: Json


ORDERS: dict[str, Order] = {
    "A pod without node goes before one with a node": Order(_made("b", node=""), _made("a")),
    "A pending pod goes before a running one": Order(_made("b", phase="Pending"), _made("a")),
    "A pod that is not ready goes before one that is": Order(_made("b", ready=None), _made("a")),
    "A cheaper pod goes before a dearer one": Order(_made("b", cost=-5), _made("a", cost=3)),
    "A pod that became ready later goes first": Order(_made("b", ready="2026-01-02T00:00:00Z"), _made("a")),
    "A pod that restarted more goes first": Order(_made("b", restarts=3), _made("a")),
    "A younger pod goes first": Order(_made("b", created="2026-01-02T00:00:00Z"), _made("a")),
}


@pytest.mark.parametrize("name", ORDERS)
def test_who_is_deleted_first(name: str) -> None:
    case = ORDERS[name]
    assert deletion_order([case.then, case.first]) == [case.first, case.then]


def test_of_pods_alike_those_crowded_on_one_node_go_first() -> None:
    alone, crowd = _made("a", node="one"), [_made("b", node="two"), _made("c", node="two")]
    everyone = [alone, *crowd]
    assert deletion_order(everyone, everyone)[-1] == alone


def test_crashing_containers_come_back_in_the_same_pod() -> None:
    cluster = LocalCluster()
    cluster.client.create(SETS, replica_set("web", 1, annotations=fake(run_seconds=1, exit_code=1)))
    cluster.advance(30)
    [only] = pods(cluster)
    assert only["status"]["phase"] == "Running"
    assert only["status"]["containerStatuses"][0]["restartCount"] == 3
    assert only["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
