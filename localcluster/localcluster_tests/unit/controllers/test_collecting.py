"""Garbage collection in random families, and where the endpoints of a service are: against the words of Kubernetes.

https://kubernetes.io/docs/concepts/architecture/garbage-collection/
https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/
"""

from __future__ import annotations

import random

import pytest

from localcluster.cluster import LocalCluster
from localcluster.wire import Json
from localcluster_tests.unit.world import PODS, fake, pod

CONFIGS = "/api/v1/namespaces/default/configmaps"
POLICIES = ("Background", "Foreground", "Orphan")


class Family:
    """Objects that own each other: a child may have several owners. What is right is said below, once more."""

    def __init__(self, rng: random.Random, size: int) -> None:
        self.cluster = LocalCluster(nodes=0)
        self.uids: dict[str, str] = {}
        self.owners: dict[str, set[str]] = {}
        for number in range(size):
            name = f"c{number}"
            owners = {f"c{o}" for o in range(number) if rng.random() < 0.4}
            refs = [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "name": owner,
                    "uid": self.uids[owner],
                    "blockOwnerDeletion": rng.random() < 0.5,
                }
                for owner in sorted(owners)
            ]
            made = self.cluster.client.create(CONFIGS, {"metadata": {"name": name, "ownerReferences": refs}})
            self.uids[name], self.owners[name] = made["metadata"]["uid"], owners
        self.cluster.run_until_idle()

    def delete(self, name: str, policy: str) -> None:
        """An object goes with its last owner; orphans stay, and lose the reference."""
        self.cluster.client.delete(f"{CONFIGS}/{name}", {"propagationPolicy": policy})
        self.cluster.advance(5)
        gone = [name]
        del self.owners[name]
        while gone:
            last = gone.pop()
            for child, owners in list(self.owners.items()):
                if last in owners:
                    owners.discard(last)
                    if not owners and (policy != "Orphan" or last != name):
                        gone.append(child)
                        del self.owners[child]

    def found(self) -> dict[str, set[str]]:
        items = self.cluster.client.get(CONFIGS)["items"]
        return {
            i["metadata"]["name"]: {r["name"] for r in i["metadata"].get("ownerReferences") or ()}
            for i in items
            if i["metadata"]["name"] in self.uids
        }


@pytest.mark.parametrize("seed", range(12))
def test_what_is_left_of_a_family(seed: int) -> None:
    rng = random.Random(seed)
    family = Family(rng, 7)
    for _ in range(3):
        if family.owners:
            policy, name = rng.choice(POLICIES), rng.choice(sorted(family.owners))
            family.delete(name, policy)
            assert family.found() == family.owners, f"seed {seed}: after {policy} of {name}"


# -- endpoints -------------------------------------------------------------------------------------
SERVICES = "/api/v1/namespaces/default/services"
Endpoint = tuple[str, bool, bool, bool]
"""(pod, ready, serving, terminating)"""


def served(publish: bool) -> tuple[list[Endpoint], list[str], list[str]]:
    """In the slices; and in the Endpoints those that are ready and those that are not."""
    cluster = LocalCluster(nodes=1, endpoints=True)
    service: Json = {
        "selector": {"app": "web"},
        "ports": [{"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81}],
        "clusterIP": "None",
        "publishNotReadyAddresses": publish,
    }
    cluster.client.create(SERVICES, {"metadata": {"name": "web"}, "spec": service})
    labels = {"app": "web"}
    slow = fake(terminate_seconds=100)
    for name, marks, plays in (
        ("ready", labels, {}),
        ("unready", labels, fake(ready_seconds=1000)),
        ("leaving", labels, slow),
        ("leaving-unready", labels, slow | fake(ready_seconds=1000)),
        ("ended", labels, fake(run_seconds=1)),
        ("waiting", labels, {}),
        ("stranger", {"app": "other"}, {}),
    ):
        made = pod(name, labels=marks, annotations=plays)
        if name == "waiting":
            made["spec"]["nodeName"] = "nowhere"
        made["spec"]["containers"][0]["ports"] = [{"name": "http", "containerPort": 8080}]
        cluster.client.create(PODS, made)
    cluster.advance(5)
    for name in ("leaving", "leaving-unready"):
        cluster.client.delete(f"{PODS}/{name}")
    cluster.run_until_idle()
    (one,) = cluster.client.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")["items"]
    assert [(p["name"], p["port"], p["protocol"]) for p in one["ports"]] == [("a", 8080, "TCP"), ("b", 81, "TCP")]
    shown = sorted(
        (e["targetRef"]["name"], *(e["conditions"][c] for c in ("ready", "serving", "terminating")))
        for e in one["endpoints"]
    )
    subset: Json = cluster.client.get("/api/v1/namespaces/default/endpoints/web")["subsets"][0]
    ready, waiting = (
        sorted(a["targetRef"]["name"] for a in subset.get(kind) or ()) for kind in ("addresses", "notReadyAddresses")
    )
    return shown, ready, waiting


@pytest.mark.parametrize("publish", [False, True])
def test_which_pods_are_the_endpoints_of_a_service(publish: bool) -> None:
    """Ready: it serves and is not leaving, unless the service publishes who is not ready."""
    slices, ready, waiting = served(publish)
    assert slices == [
        ("leaving", publish, True, True),
        ("leaving-unready", publish, False, True),
        ("ready", True, True, False),
        ("unready", publish, False, False),
    ]
    assert ready == (["leaving", "leaving-unready", "ready", "unready"] if publish else ["ready"])
    assert waiting == ([] if publish else ["unready"])
