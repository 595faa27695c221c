"""Tables of claims, volumes and storage classes. Pure."""

from __future__ import annotations

from typing import Any

from localcluster.apiserver.tables.base import Printer, Row, age_of, make_columns
from localcluster.wire import Json

UNSET = "<unset>"
_SHORT = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
"""In the order in which kubectl lists them."""
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _access_modes(obj: Json) -> str:
    modes = obj.get("accessModes") or ()
    return ",".join(short for mode, short in _SHORT.items() if mode in modes)


def _claim_row(obj: Json, now: float) -> tuple[Row, Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        obj["metadata"]["name"],
        "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        _access_modes(status) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        age_of(obj, now),
        spec.get("volumeMode", UNSET),
    ], None


def _volume_row(obj: Json, now: float) -> tuple[Row, Any]:
    spec, status = obj["spec"], obj.get("status") or {}
    claimed = spec.get("claimRef")
    return [
        obj["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", "0"),
        _access_modes(spec),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", ""),
        f"{claimed.get('namespace', '')}/{claimed.get('name', '')}" if claimed else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", UNSET),
        status.get("reason", ""),
        age_of(obj, now),
        spec.get("volumeMode", UNSET),
    ], None


def _class_row(obj: Json, now: float) -> tuple[Row, Any]:
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
    return [
        obj["metadata"]["name"] + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ], None


CLAIM = Printer(
    make_columns(
        *("Name:name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age"),
        "VolumeMode+",
    ),
    _claim_row,
)
VOLUME = Printer(
    make_columns(
        *("Name:name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
        *("VolumeAttributesClass", "Reason", "Age", "VolumeMode+"),
    ),
    _volume_row,
)
CLASS = Printer(
    make_columns("Name:name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
    _class_row,
)
