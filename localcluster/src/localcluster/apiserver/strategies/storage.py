"""Claims, volumes and storage classes: defaults, and what is refused. In-place `default`; safe to run twice."""

from __future__ import annotations

from localcluster.apiserver import meta
from localcluster.apiserver.errors import Causes
from localcluster.objects import quantity
from localcluster.wire import Json

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
RECLAIM_POLICIES = ("Delete", "Retain")
BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
IMMUTABLE_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _add_protection(obj: Json, finalizer: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


def default_claim(claim: Json) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def prepare_claim(claim: Json) -> None:
    claim["status"] = {"phase": "Pending"}
    _add_protection(claim, CLAIM_PROTECTION)


def validate_claim(claim: Json, causes: Causes) -> None:
    spec = claim["spec"]
    modes = spec.get("accessModes") or ()
    _validate_modes(modes, causes, "at least 1 access mode is required")
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        causes.forbidden("spec.accessModes", "may not use ReadWriteOncePod with other access modes")
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if asked is None:
        causes.required("spec.resources[storage]")
    elif quantity(asked) <= 0:
        causes.invalid("spec.resources[storage]", asked, "must be greater than zero")
    if spec["volumeMode"] not in VOLUME_MODES:
        causes.unsupported("spec.volumeMode", spec["volumeMode"], VOLUME_MODES)


def _validate_modes(modes: list[str] | tuple[str, ...], causes: Causes, why: str) -> None:
    if not modes:
        causes.required("spec.accessModes", why)
    for mode in modes:
        if mode not in ACCESS_MODES:
            causes.unsupported("spec.accessModes", mode, ACCESS_MODES)


def validate_claim_update(new: Json, old: Json, causes: Causes) -> None:
    after, before = dict(new["spec"]), dict(old["spec"])
    # Binding sets volumeName in the spec, once.
    if not before.get("volumeName"):
        before["volumeName"] = after.get("volumeName")
    # A bound claim may request more: this expands its volume.
    if (new.get("status") or {}).get("phase") == "Bound":
        after["resources"] = before.get("resources")
    if {k: v for k, v in after.items() if v} != {k: v for k, v in before.items() if v}:
        causes.forbidden("spec", IMMUTABLE_CLAIM)


def default_volume(volume: Json) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def prepare_volume(volume: Json) -> None:
    volume["status"] = {"phase": "Pending"}
    _add_protection(volume, VOLUME_PROTECTION)


def validate_volume(volume: Json, causes: Causes) -> None:
    spec = volume["spec"]
    _validate_modes(spec.get("accessModes") or (), causes, "")
    if "storage" not in (spec.get("capacity") or {}):
        causes.required("spec.capacity")


def default_class(storage_class: Json) -> None:
    storage_class.setdefault("reclaimPolicy", "Delete")
    storage_class.setdefault("volumeBindingMode", "Immediate")


def validate_class(storage_class: Json, causes: Causes) -> None:
    if not storage_class.get("provisioner"):
        causes.required("provisioner")
    if storage_class["reclaimPolicy"] not in RECLAIM_POLICIES:
        causes.unsupported("reclaimPolicy", storage_class["reclaimPolicy"], RECLAIM_POLICIES)
    if storage_class["volumeBindingMode"] not in BINDING_MODES:
        causes.unsupported("volumeBindingMode", storage_class["volumeBindingMode"], BINDING_MODES)


def validate_class_update(new: Json, old: Json, causes: Causes) -> None:
    if new.get("parameters") != old.get("parameters"):
        causes.forbidden("parameters", "updates to parameters are forbidden.")
    for name in ("provisioner", "reclaimPolicy", "volumeBindingMode"):
        if new.get(name) != old.get(name):
            causes.invalid(name, new.get(name), meta.IMMUTABLE)
