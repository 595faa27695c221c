"""Pods that wait for a volume, and volumes that wait for a pod."""

from __future__ import annotations

from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.kubelet.provisioner import PROVISIONER, Provisioner
from localcluster.recorder import Recorder
from localcluster.wire import Json
from localcluster_tests.unit.world import PODS

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


def with_provisioner(folder: Path) -> LocalCluster:
    cluster = LocalCluster(nodes=2)
    recorder = Recorder(cluster.client, cluster.clock, PROVISIONER)
    cluster.driver.machines.append(Provisioner(cluster.client, cluster.informers, recorder, folder))
    late = {"metadata": {"name": "late"}, "provisioner": PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.client.create(CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", **late})
    return cluster


def using(name: str, labels: dict[str, str] | None = None) -> Json:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    spec = {"containers": [{"name": "c", "image": "x"}], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels or {}}, "spec": spec}


def claim(name: str, class_name: str) -> Json:
    asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    meta = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta,
        "spec": {**asks, "storageClassName": class_name},
    }


def test_a_claim_of_a_late_class_is_bound_once_its_pod_has_a_node(tmp_path: Path) -> None:
    cluster = with_provisioner(tmp_path)
    cluster.client.create(CLAIMS, claim("c", "late"))
    cluster.driver.advance(30)
    assert cluster.client.get(f"{CLAIMS}/c")["status"]["phase"] == "Pending"
    cluster.client.create(PODS, using("p"))
    cluster.driver.advance(30)
    bound, pod = cluster.client.get(f"{CLAIMS}/c"), cluster.client.get(f"{PODS}/p")
    assert (bound["status"]["phase"], pod["status"]["phase"]) == ("Bound", "Running")
    assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == pod["spec"]["nodeName"]


def test_a_pod_whose_claim_is_going_waits_in_the_schedulers_words(tmp_path: Path) -> None:
    cluster = with_provisioner(tmp_path)
    cluster.client.create(CLAIMS, claim("c", "standard"))
    cluster.client.create(PODS, using("first"))
    cluster.driver.advance(30)
    cluster.client.delete(f"{CLAIMS}/c")
    cluster.client.create(PODS, using("second"))
    cluster.driver.advance(30)
    scheduled = next(
        c for c in cluster.client.get(f"{PODS}/second")["status"]["conditions"] if c["type"] == "PodScheduled"
    )
    assert scheduled["message"] == '0/2 nodes are available: persistentvolumeclaim "c" is being deleted. not found'
    cluster.client.delete(f"{PODS}/first", {"gracePeriodSeconds": 0})
    cluster.driver.advance(30)
    cluster.client.create(CLAIMS, claim("c", "standard"))
    cluster.driver.advance(30)
    assert cluster.client.get(f"{PODS}/second")["status"]["phase"] == "Running", "another claim of that name will do"
