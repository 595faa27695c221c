"""Claims on one machine: a folder that outlives pods, for as long as its claim is there, and no longer."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from localcluster.kubelet.provisioner import PROVISIONED_BY, PROVISIONER
from localcluster.wire import Json
from localcluster_tests.unit.kubelet.room import Room, pod, shell
from localcluster_tests.unit.kubelet.test_process import events_of
from localcluster_tests.unit.world import PODS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process kubelet's tests read /proc")

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES, CLASSES = "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses"


def claim(name: str = "data", **spec: object) -> Json:
    asks = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {**asks, **spec}}


def volume(name: str, path: Path, **spec: object) -> Json:
    has = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": str(path)}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {**has, **spec},
    }


def using(name: str, script: str, **source: object) -> Json:
    mounts = [{"name": "v", "mountPath": "/data"}]
    claimed = {"name": "v", "persistentVolumeClaim": {"claimName": "data", **source}}
    return pod(name, shell(script, volumeMounts=mounts), volumes=[claimed], terminationGracePeriodSeconds=1)


def phase(room: Room, name: str = "data") -> str:
    return str(room.client.get(f"{CLAIMS}/{name}")["status"]["phase"])


def bound(room: Room, made: Json) -> Path:
    room.client.create(CLAIMS, made)
    name = made["metadata"]["name"]
    room.until(lambda: phase(room, name) == "Bound")
    volume_name = room.client.get(f"{CLAIMS}/{name}")["spec"]["volumeName"]
    return Path(room.client.get(f"{VOLUMES}/{volume_name}")["spec"]["hostPath"]["path"])


def names(room: Room, path: str) -> list[str]:
    return [each["metadata"]["name"] for each in room.client.get(path)["items"]]


def test_what_one_pod_writes_the_next_one_reads_until_the_claim_goes(room: Room) -> None:
    if room.kubelet.host.isolation == "none":
        pytest.skip("mount namespaces are not available here")
    folder = bound(room, claim())
    assert folder.parent == room.folder / "volumes"
    room.run(using("first", "echo kept > /data/file"))
    room.until(room.phase_is("first", "Succeeded"))
    assert (folder / "file").read_text() == "kept\n"
    room.client.delete(f"{PODS}/first")
    room.run(using("second", "cat /data/file; sleep 4741"))
    room.until(lambda: room.phase_is("second", "Running")() and room.logs("second") == "kept\n")
    room.client.delete(f"{CLAIMS}/data")
    room.settle()
    assert (phase(room), folder.is_dir()) == ("Bound", True), "a pod uses it"
    room.client.delete(f"{PODS}/second")
    room.until(lambda: not names(room, CLAIMS) and not folder.exists())
    assert names(room, VOLUMES) == []


def test_a_claim_that_is_used_read_only_cannot_be_written(room: Room) -> None:
    if room.kubelet.host.isolation != "root":
        pytest.skip("needs root: a user namespace may not always remount")
    bound(room, claim())
    room.run(using("p", "echo no > /data/file", readOnly=True))
    room.until(room.phase_is("p", "Failed"))
    assert "Read-only file system" in room.logs("p")


def test_a_pod_with_a_node_waits_for_its_claim_in_the_kubelets_words(room: Room) -> None:
    room.run(using("p", "true"))
    why = 'failed to fetch PVC from API server: persistentvolumeclaims "data" not found'
    wanted = f"FailedMount: error processing PVC default/data: {why}"
    room.until(lambda: wanted in events_of(room, "p"))
    room.client.create(CLAIMS, claim())
    room.until(room.phase_is("p", "Succeeded"))


@dataclass(frozen=True)
class Case:
    made: Json
    want_phase: str
    want_class: str | None


BINDINGS: dict[str, Case] = {
    "A claim without a class gets the default one": Case(claim(), "Bound", "standard"),
    "A claim of the class by name": Case(claim(storageClassName="standard"), "Bound", "standard"),
    "A claim of no class waits for a volume by hand": Case(claim(storageClassName=""), "Pending", ""),
    "A claim of another class is somebody else's": Case(claim(storageClassName="fast"), "Pending", "fast"),
    "A device is not to be had": Case(claim(volumeMode="Block"), "Pending", "standard"),
}


@pytest.mark.parametrize("name", BINDINGS)
def test_which_claims_are_served(room: Room, name: str) -> None:
    case = BINDINGS[name]
    room.client.create(CLAIMS, case.made)
    room.settle()
    assert phase(room) == case.want_phase
    assert room.client.get(f"{CLAIMS}/data")["spec"].get("storageClassName") == case.want_class


def test_a_class_that_retains_keeps_the_folder(room: Room) -> None:
    room.client.create(
        CLASSES,
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "kept"},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Retain",
        },
    )
    folder = bound(room, claim(storageClassName="kept"))
    (folder / "file").write_text("precious")
    room.client.delete(f"{CLAIMS}/data")
    room.until(lambda: [v["status"]["phase"] for v in room.client.get(VOLUMES)["items"]] == ["Released"])
    assert (folder / "file").read_text() == "precious"


@pytest.mark.parametrize("inside", [True, False], ids=["in the folder of volumes", "elsewhere"])
def test_a_volume_that_somebody_else_wrote_never_deletes_a_folder(room: Room, tmp_path: Path, inside: bool) -> None:
    precious = (room.folder / "volumes" if inside else tmp_path) / "precious"
    precious.mkdir(parents=True)
    spec = {"persistentVolumeReclaimPolicy": "Delete", "storageClassName": ""}
    room.client.create(VOLUMES, volume("forged", precious, **spec))
    bound(room, claim(storageClassName=""))
    room.client.delete(f"{CLAIMS}/data")
    room.until(lambda: room.client.get(VOLUMES)["items"] == [])
    assert precious.is_dir()


def test_the_class_comes_back_and_a_users_own_is_left_alone(room: Room) -> None:
    found = room.client.get(f"{CLASSES}/standard")
    assert (found["provisioner"], found["reclaimPolicy"], found["volumeBindingMode"]) == (
        PROVISIONER,
        "Delete",
        "Immediate",
    )
