"""Which volume a claim is bound to, of those that somebody made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.wire import Json

CLAIMS, VOLUMES = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"


def volume(name: str, size: str = "2Gi", labels: dict[str, str] | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "hand",
            "hostPath": {"path": f"/srv/{name}"},
            **spec,
        },
    }


FOR_ANOTHER: dict[str, Any] = {"claimRef": {"namespace": "default", "name": "another"}}
FOR_THIS: dict[str, Any] = {"claimRef": {"namespace": "default", "name": "c"}}
BOUND: dict[str, tuple[list[Json], Json, str]] = {
    # volumes, the claim's spec beyond 2Gi of class hand, which one it gets
    "the smallest that is large enough": ([volume("a", "9Gi"), volume("b", "3Gi"), volume("c", "1Gi")], {}, "b"),
    "none that is too small": ([volume("a", "1Gi")], {}, ""),
    "none of another class": ([volume("a", storageClassName="other")], {}, ""),
    "none without the mode that it asks for": ([volume("a")], {"accessModes": ["ReadWriteMany"]}, ""),
    "one with more modes than it asks for": ([volume("a", accessModes=["ReadWriteOnce", "ReadWriteMany"])], {}, "a"),
    "none that is kept for another": ([volume("a", **FOR_ANOTHER)], {}, ""),
    "the one that is kept for it, whatever its size": ([volume("a", "9Gi", **FOR_THIS), volume("b")], {}, "a"),
    "of those alike the first by name": ([volume("b"), volume("a")], {}, "a"),
    "the one that its selector finds": (
        [volume("a"), volume("b", labels={"disk": "ssd"})],
        {"selector": {"matchLabels": {"disk": "ssd"}}},
        "b",
    ),
}


@pytest.mark.parametrize("name", BOUND)
def test_which_volume_a_claim_gets(name: str) -> None:
    volumes, asked, want = BOUND[name]
    cluster = LocalCluster(nodes=1)
    for each in volumes:
        cluster.client.create(VOLUMES, each)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Gi"}},
        "storageClassName": "hand",
        **asked,
    }
    cluster.client.create(
        CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    )
    cluster.driver.advance(5)
    found = cluster.client.get(f"{CLAIMS}/c")
    assert (found["spec"].get("volumeName", ""), found["status"]["phase"]) == (want, "Bound" if want else "Pending")
