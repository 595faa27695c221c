"""Rows of configuration, volumes, quotas and role bindings. Pure."""

from __future__ import annotations

from typing import Any

from localcluster.apiserver.tables.base import Printer, Row, age, columns
from localcluster.wire import Json

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _configmap(obj: Json, now: float) -> tuple[Row, Any]:
    return [obj["metadata"]["name"], len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)], None


def _secret(obj: Json, now: float) -> tuple[Row, Any]:
    return [obj["metadata"]["name"], obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)], None


def _modes(modes: Any) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes or ())


def _claim(obj: Json, now: float) -> tuple[Row, Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    return [
        obj["metadata"]["name"],
        phase,
        spec.get("volumeName", ""),
        status.get("capacity", {}).get("storage", "") if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        age(obj, now),
        spec.get("volumeMode", "<unset>"),
    ], None


def _volume(obj: Json, now: float) -> tuple[Row, Any]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    claim = spec.get("claimRef") or {}
    phase = "Terminating" if "deletionTimestamp" in obj["metadata"] else status.get("phase", "")
    return [
        obj["metadata"]["name"],
        spec.get("capacity", {}).get("storage", ""),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        f"{claim.get('namespace', '')}/{claim['name']}" if claim.get("name") else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        status.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode", "<unset>"),
    ], None


def _quota(obj: Json, now: float) -> tuple[Row, Any]:
    status = obj.get("status", {})
    hard, used = status.get("hard") or obj.get("spec", {}).get("hard", {}), status.get("used", {})
    requests = ", ".join(
        f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard) if not name.startswith("limits.")
    )
    limits = ", ".join(
        f"{name}: {used.get(name, '0')}/{hard[name]}" for name in sorted(hard) if name.startswith("limits.")
    )
    return [obj["metadata"]["name"], requests, limits, age(obj, now)], None


def _role_binding(obj: Json, now: float) -> tuple[Row, Any]:
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in obj.get("subjects") or ():
        name = (
            f"{subject.get('namespace', '')}/{subject['name']}"
            if subject.get("kind") == "ServiceAccount"
            else subject.get("name", "")
        )
        subjects.setdefault(subject.get("kind", ""), []).append(name)
    role = obj.get("roleRef", {})
    return [
        obj["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now),
        ", ".join(subjects["User"]),
        ", ".join(subjects["Group"]),
        ", ".join(subjects["ServiceAccount"]),
    ], None


CONFIGMAP = Printer(columns("Name:name", "Data", "Age"), _configmap)
SECRET = Printer(columns("Name:name", "Type", "Data", "Age"), _secret)
CLAIM = Printer(
    columns(
        "Name:name",
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        "Age",
        "VolumeMode+",
    ),
    _claim,
)
VOLUME = Printer(
    columns(
        "Name:name",
        "Capacity",
        "Access Modes",
        "Reclaim Policy",
        "Status",
        "Claim",
        "StorageClass",
        "VolumeAttributesClass",
        "Reason",
        "Age",
        "VolumeMode+",
    ),
    _volume,
)
QUOTA = Printer(columns("Name:name", "Request", "Limit", "Age"), _quota)
ROLE_BINDING = Printer(columns("Name:name", "Role", "Age", "Users+", "Groups+", "ServiceAccounts+"), _role_binding)
