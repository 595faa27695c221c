"""Owner references: what goes with its owner, what stays, what waits; and the end of a namespace."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from localcluster.cluster import LocalCluster
from localcluster.wire import Json
from tests.unit.localcluster.world import PODS, SETS, fake, get, pods, replica_set

MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, *owners: Json, block: bool = False) -> Json:
    refs = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": o["metadata"]["name"],
            "uid": o["metadata"]["uid"],
            **({"blockOwnerDeletion": True} if block else {}),
        }
        for o in owners
    ]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": refs}}


@dataclass(frozen=True)
class Case:
    policy: str
    want_pods: int
    want_owned: bool


CASES: dict[str, Case] = {
    "Background: the owner goes, then its pods": Case("Background", 0, False),
    "Foreground: the pods go, then the owner": Case("Foreground", 0, False),
    "Orphan: the pods stay and are nobody's": Case("Orphan", 2, False),
}


@pytest.mark.parametrize("name", CASES)
def test_deleting_an_owner(name: str) -> None:
    case = CASES[name]
    cluster = LocalCluster()
    cluster.client.create(SETS, replica_set("web", 2))
    cluster.run_until_idle()
    cluster.client.delete(f"{SETS}/web", {"propagationPolicy": case.policy})
    cluster.run_until_idle()
    assert get(cluster, f"{SETS}/web") is None
    assert len(pods(cluster)) == case.want_pods
    assert any(p["metadata"].get("ownerReferences") for p in pods(cluster)) == case.want_owned


def test_a_foreground_deletion_waits_for_dependents_that_block_it() -> None:
    cluster = LocalCluster()
    cluster.client.create(SETS, replica_set("web", 1, annotations=fake(terminate_seconds="never")))
    cluster.run_until_idle()
    cluster.client.delete(f"{SETS}/web", {"propagationPolicy": "Foreground"})
    cluster.advance(20)
    waiting = get(cluster, f"{SETS}/web")
    assert waiting is not None
    assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
    cluster.advance(15)
    assert get(cluster, f"{SETS}/web") is None
    assert pods(cluster) == []


def test_an_object_whose_owner_has_another_uid_goes() -> None:
    cluster = LocalCluster()
    owner = cluster.client.create(MAPS, config_map("owner"))
    cluster.client.delete(f"{MAPS}/owner")
    cluster.client.create(MAPS, config_map("owner"))
    cluster.client.create(MAPS, config_map("child", owner))
    cluster.run_until_idle()
    assert get(cluster, f"{MAPS}/child") is None
    assert get(cluster, f"{MAPS}/owner") is not None


def test_an_object_with_another_living_owner_stays_and_loses_the_dead_reference() -> None:
    cluster = LocalCluster()
    dead, alive = cluster.client.create(MAPS, config_map("dead")), cluster.client.create(MAPS, config_map("alive"))
    cluster.client.create(MAPS, config_map("child", dead, alive))
    cluster.run_until_idle()
    cluster.client.delete(f"{MAPS}/dead")
    cluster.run_until_idle()
    child = get(cluster, f"{MAPS}/child")
    assert child is not None
    assert [r["name"] for r in child["metadata"]["ownerReferences"]] == ["alive"]


def test_a_chain_of_owners_goes_to_its_end() -> None:
    cluster = LocalCluster()
    owner = cluster.client.create(MAPS, config_map("link-0"))
    for number in range(1, 6):
        owner = cluster.client.create(MAPS, config_map(f"link-{number}", owner))
    cluster.run_until_idle()
    cluster.client.delete(f"{MAPS}/link-0")
    cluster.run_until_idle()
    assert [m for m in cluster.client.get(MAPS)["items"] if m["metadata"]["name"].startswith("link-")] == []


def test_objects_of_a_crd_own_and_are_owned() -> None:
    cluster = LocalCluster()
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }
    cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    cluster.run_until_idle()
    things = "/apis/example.com/v1/namespaces/default/things"
    thing = cluster.client.create(things, {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": thing["metadata"]["uid"]}
    ]
    cluster.client.create(MAPS, child)
    cluster.run_until_idle()
    assert get(cluster, f"{MAPS}/child") is not None
    cluster.client.delete(f"{things}/t")
    cluster.run_until_idle()
    assert get(cluster, f"{MAPS}/child") is None


def test_a_namespace_goes_with_all_it_holds_once_its_pods_have_ended() -> None:
    cluster = LocalCluster()
    cluster.client.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    body = replica_set("web", 1, annotations=fake(terminate_seconds=10))
    cluster.client.create("/apis/apps/v1/namespaces/team/replicasets", body)
    cluster.client.create("/api/v1/namespaces/team/configmaps", config_map("settings"))
    cluster.run_until_idle()
    cluster.client.delete("/api/v1/namespaces/team")
    cluster.advance(5)
    held = get(cluster, "/api/v1/namespaces/team")
    assert held is not None
    assert held["status"]["phase"] == "Terminating"
    cluster.advance(10)
    assert get(cluster, "/api/v1/namespaces/team") is None
    assert get(cluster, "/api/v1/namespaces/default") is not None
    assert cluster.client.get(PODS)["items"] == []
