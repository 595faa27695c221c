"""Claims and volumes: binds the one to the other, calls for a volume where none is there, and keeps both for as long
as they are used.

As `pkg/controller/volume/persistentvolume`, `pvcprotection` and `pvprotection` of kube-controller-manager. Makes and
deletes no volume: provisioners do. Decides by the caches; every write names the version or the uid that it rests on,
so running twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from localcluster.client import Client, ignoring
from localcluster.informer import Informers, key_of
from localcluster.machine import KeyedMachine
from localcluster.objects import matches, quantity
from localcluster.recorder import Recorder
from localcluster.wire import Json

CLAIMS, VOLUMES, CLASSES = (
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    "/apis/storage.k8s.io/v1/storageclasses",
)
BOUND_BY_CONTROLLER, BIND_COMPLETED = "pv.kubernetes.io/bound-by-controller", "pv.kubernetes.io/bind-completed"
PROVISIONERS = ("volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner")
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
FAR_PROVISIONER = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system "
    "administrator. If volume creation is delayed, please verify that the provisioner is running and correctly "
    "registered."
)


def claims_of(pod: Json) -> Iterator[str]:
    """The keys of the claims that a pod uses."""
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield f"{pod['metadata']['namespace']}/{volume['persistentVolumeClaim']['claimName']}"


def claim_path(claim: Json, subresource: str = "") -> str:
    meta = claim["metadata"]
    path = f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}"
    return f"{path}/{subresource}" if subresource else path


def is_bound(claim: Json) -> bool:
    return BIND_COMPLETED in (claim["metadata"].get("annotations") or {})


class VolumeController(KeyedMachine):
    """Keys are `claim:<namespace>/<name>` and `volume:<name>`."""

    name = "persistentvolume-controller"

    def __init__(self, client: Client, informers: Informers, recorder: Recorder) -> None:
        super().__init__(informers.pump)
        self._client = client
        self._recorder = recorder
        self._claims, self._volumes = informers.get(CLAIMS), informers.get(VOLUMES)
        self._classes, self._pods = informers.get(CLASSES), informers.get("/api/v1/pods")
        self._pods.add_index("claims", claims_of)
        self._claims.subscribe(self._claim_changed)
        self._volumes.subscribe(self._volume_changed)
        self._classes.subscribe(lambda *_: self._look_at_pending())
        self._pods.subscribe(self._pod_changed)

    def _claim_changed(self, old: Json | None, new: Json | None) -> None:
        claim = new or old or {}
        self.enqueue(f"claim:{key_of(claim)}")
        if volume := claim["spec"].get("volumeName"):
            self.enqueue(f"volume:{volume}")

    def _volume_changed(self, old: Json | None, new: Json | None) -> None:
        volume = new or old or {}
        self.enqueue(f"volume:{key_of(volume)}")
        if claimed := volume["spec"].get("claimRef"):
            self.enqueue(f"claim:{claimed['namespace']}/{claimed['name']}")
        else:
            self._look_at_pending()

    def _look_at_pending(self) -> None:
        for key, claim in self._claims.store.items():
            if not is_bound(claim):
                self.enqueue(f"claim:{key}")

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        if new is None and old is not None:
            for key in claims_of(old):
                self.enqueue(f"claim:{key}")

    def reconcile(self, key: str, now: float) -> None:
        kind, _, name = key.partition(":")
        if kind == "volume":
            volume = self._volumes.get(name)
            if volume is not None:
                self._sync_volume(volume)
            return
        claim = self._claims.get(name)
        if claim is None:
            return
        if "deletionTimestamp" in claim["metadata"]:
            # `podUsesPVCForDeletion`: a kubelet starts no pod whose claim is being deleted, so that only scheduled
            # pods use the claim.
            if not any(pod["spec"].get("nodeName") for pod in self._pods.by("claims", name)):
                self._remove_protection(claim_path(claim), claim, CLAIM_PROTECTION)
        elif not is_bound(claim):
            self._bind_or_provision(claim)
        else:
            self._check_bound(claim)

    # --- claims ----------------------------------------------------------------------------------------------------

    def _bind_or_provision(self, claim: Json) -> None:
        named = claim["spec"].get("volumeName")
        # `syncUnboundClaim`: a claim that names its volume waits for that volume, and nothing is provisioned for it.
        volume = self._volumes.get(named) if named else self._find_volume(claim)
        if volume is not None:
            self._bind_volume(claim, volume)
        elif not named:
            self._request_volume(claim)

    def _find_volume(self, claim: Json) -> Json | None:
        """The volume that was made for it, else the smallest that fits."""
        meta, spec = claim["metadata"], claim["spec"]
        asked = quantity(spec["resources"]["requests"]["storage"])
        fitting = []
        for volume in self._volumes.store.values():
            has = volume["spec"]
            claimed = has.get("claimRef")
            if "deletionTimestamp" in volume["metadata"] or not set(spec["accessModes"]) <= set(has["accessModes"]):
                continue
            if claimed is not None:
                # `FindMatchingVolume` prefers a volume reserved for this claim to any that fits.
                if claimed.get("uid") == meta["uid"] or (
                    not claimed.get("uid")
                    and (claimed["namespace"], claimed["name"]) == (meta["namespace"], meta["name"])
                ):
                    return volume
                continue
            same = (has.get("storageClassName") or "", has["volumeMode"]) == (
                spec.get("storageClassName") or "",
                spec["volumeMode"],
            )
            size = quantity(has["capacity"]["storage"])
            chosen = "selector" not in spec or matches(spec["selector"], volume["metadata"].get("labels"))
            if same and chosen and size >= asked:
                fitting.append((size, volume["metadata"]["name"], volume))
        return min(fitting, key=lambda found: found[:2])[2] if fitting else None

    def _bind_volume(self, claim: Json, volume: Json) -> None:
        """The volume first: whose claimRef names the claim's uid is taken, whatever happens before the claim knows."""
        meta, claimed = claim["metadata"], volume["spec"].get("claimRef")
        if claimed is not None and claimed.get("uid") not in (None, "", meta["uid"]):
            return
        if claimed is None or not claimed.get("uid"):
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "resourceVersion": meta["resourceVersion"],
            }
            noted = {} if claimed is not None else {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
            volume = self._patch(
                f"{VOLUMES}/{volume['metadata']['name']}", volume, {"spec": {"claimRef": reference}}, noted
            )
        notes = {BIND_COMPLETED: "yes"}
        # `bindClaimToVolume` marks a binding that the user has not asked for.
        if not claim["spec"].get("volumeName"):
            notes[BOUND_BY_CONTROLLER] = "yes"
        bound = {"spec": {"volumeName": volume["metadata"]["name"]}}
        self._report_bound(self._patch(claim_path(claim), claim, bound, {"annotations": notes}), volume)

    def _report_bound(self, claim: Json, volume: Json) -> None:
        spec = volume["spec"]
        status = {"phase": "Bound", "accessModes": spec["accessModes"], "capacity": spec["capacity"]}
        self._patch(claim_path(claim, "status"), claim, {"status": status}, {})

    def _check_bound(self, claim: Json) -> None:
        volume, phase = self._volumes.get(claim["spec"]["volumeName"]), claim["status"]["phase"]
        if volume is None or (volume["spec"].get("claimRef") or {}).get("uid") != claim["metadata"]["uid"]:
            if phase != "Lost":
                self._patch(claim_path(claim, "status"), claim, {"status": {"phase": "Lost"}}, {})
                self._recorder.warning(
                    claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                )
        elif phase != "Bound":
            self._report_bound(claim, volume)

    def _request_volume(self, claim: Json) -> None:
        name = claim["spec"].get("storageClassName")
        if not name:
            self._recorder.normal(
                claim, "FailedBinding", "no persistent volumes available for this claim and no storage class is set"
            )
            return
        found = self._classes.get(name)
        if found is None:
            self._recorder.warning(claim, "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found')
            return
        noted = claim["metadata"].get("annotations") or {}
        # The volume may depend on the node, which the scheduler has not chosen yet.
        if found["volumeBindingMode"] == "WaitForFirstConsumer" and SELECTED_NODE not in noted:
            message = "waiting for first consumer to be created before binding"
            self._recorder.normal(claim, "WaitForFirstConsumer", message)
            return
        provisioner = found["provisioner"]
        # `setClaimProvisioner`: an external provisioner acts on the claims that name it.
        if any(noted.get(key) != provisioner for key in PROVISIONERS):
            notes = dict.fromkeys(PROVISIONERS, provisioner)
            claim = self._patch(claim_path(claim), claim, {}, {"annotations": notes})
        self._recorder.normal(claim, "ExternalProvisioning", FAR_PROVISIONER.format(provisioner))

    # --- volumes ---------------------------------------------------------------------------------------------------

    def _sync_volume(self, volume: Json) -> None:
        phase = self._phase_of(volume)
        path = f"{VOLUMES}/{volume['metadata']['name']}"
        if (volume.get("status") or {}).get("phase") != phase:
            volume = self._patch(f"{path}/status", volume, {"status": {"phase": phase}}, {})
        # `isBeingUsed` of the protection controller looks at the phase alone.
        if "deletionTimestamp" in volume["metadata"] and phase != "Bound":
            self._remove_protection(path, volume, VOLUME_PROTECTION)

    def _phase_of(self, volume: Json) -> str:
        claimed = volume["spec"].get("claimRef")
        # `syncVolume`: a volume that is reserved by name, without a uid, is not bound yet.
        if claimed is None or not claimed.get("uid"):
            return "Available"
        claim = self._claims.get(f"{claimed['namespace']}/{claimed['name']}")
        there = claim is not None and claim["metadata"]["uid"] == claimed["uid"]
        return "Bound" if there else "Released"

    # --- writes ----------------------------------------------------------------------------------------------------

    def _patch(self, path: str, seen: Json, change: Json, metadata: Json) -> Json:
        """Raises 409 when the object is another one by now."""
        version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
        return self._client.patch(path, {**change, "metadata": {**metadata, **version}})

    def _remove_protection(self, path: str, obj: Json, finalizer: str) -> None:
        kept: list[Any] = [each for each in obj["metadata"].get("finalizers") or () if each != finalizer]
        if kept != (obj["metadata"].get("finalizers") or []):
            with ignoring(404):
                self._patch(path, obj, {}, {"finalizers": kept})
