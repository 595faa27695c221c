"""Volumes of this machine for claims of class `standard`: a folder each, made when a claim asks for one, deleted when
its claim has gone.

What an external provisioner is to Kubernetes (as rancher's local-path); speaks nothing but the Kubernetes API. Sizes
are not enforced: a volume may fill the disk. All nodes are this machine, so a volume is there on each of them. Safe to
run twice: a volume's name follows from its claim's uid.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from localcluster.client import ApiError, Client, ignoring
from localcluster.controllers.volumes import CLAIMS, CLASSES, PROVISIONERS, VOLUMES, is_bound
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.recorder import Recorder
from localcluster.wire import Json

PROVISIONER = "localcluster/local-path"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
STANDARD: Json = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
}


class Provisioner(KeyedMachine):
    """Keys are `claim:<namespace>/<name>`, `volume:<name>` and `class`."""

    name = "provisioner"

    def __init__(self, client: Client, informers: Informers, recorder: Recorder, folder: Path) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._recorder = recorder
        self._folder = folder.resolve()
        self._claims, self._volumes = informers.get(CLAIMS), informers.get(VOLUMES)
        self._classes = informers.get(CLASSES)
        self._claims.subscribe(lambda _, new: self.enqueue(f"claim:{key_of(new)}") if new else None)
        self._volumes.subscribe(lambda _, new: self.enqueue(f"volume:{key_of(new)}") if new else None)
        self.enqueue("class")

    def reconcile(self, key: str, now: float) -> None:
        kind, _, name = key.partition(":")
        if kind == "class":
            with ignoring(409):
                self._client.create(CLASSES, STANDARD)
        elif kind == "claim" and (claim := self._claims.get(name)) is not None:
            self._provision_claim(claim)
        elif kind == "volume" and (volume := self._volumes.get(name)) is not None:
            self._clear_volume(volume)

    def _provision_claim(self, claim: Json) -> None:
        meta, spec = claim["metadata"], claim["spec"]
        asked = any((meta.get("annotations") or {}).get(key) == PROVISIONER for key in PROVISIONERS)
        if not asked or is_bound(claim) or spec.get("volumeName") or "deletionTimestamp" in meta:
            return
        if spec["volumeMode"] != "Filesystem":
            self._recorder.warning(claim, "ProvisioningFailed", "volumeMode Block: here are folders, not devices")
            return
        found = self._classes.get(spec["storageClassName"]) or STANDARD
        name = f"pvc-{meta['uid']}"
        path = self._folder / f"{name}_{meta['namespace']}_{meta['name']}"
        path.mkdir(mode=0o777, parents=True, exist_ok=True)
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": spec["resources"]["requests"]["storage"]},
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    **{key: meta[key] for key in ("name", "namespace", "uid", "resourceVersion")},
                },
                "hostPath": {"path": str(path), "type": "DirectoryOrCreate"},
                "persistentVolumeReclaimPolicy": found.get("reclaimPolicy", "Delete"),
                "storageClassName": spec["storageClassName"],
                "volumeMode": "Filesystem",
            },
        }
        try:
            self._client.create(VOLUMES, volume)
        except ApiError as error:
            if error.code != 409:
                raise
            return
        self._recorder.normal(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _clear_volume(self, volume: Json) -> None:
        """The object first: a folder that is left over is found by its name, a volume without its folder harms a
        pod."""
        meta, spec = volume["metadata"], volume["spec"]
        ours = (meta.get("annotations") or {}).get(PROVISIONED_BY) == PROVISIONER
        released = (volume.get("status") or {}).get("phase") == "Released"
        if not ours or not released or spec["persistentVolumeReclaimPolicy"] != "Delete":
            return
        path = Path(spec["hostPath"]["path"])
        with ignoring(404):
            self._client.delete(f"{VOLUMES}/{meta['name']}", {"preconditions": {"uid": meta["uid"]}})
        # A user who may write volumes may write any path into one: only the provisioner's own folders are deleted.
        if path.parent == self._folder and path.name.startswith(f"{meta['name']}_"):
            shutil.rmtree(path, ignore_errors=True)
