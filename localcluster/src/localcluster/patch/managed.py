"""metadata.managedFields: who set which fields, read and written.

Mirrors k8s.io/apimachinery/pkg/util/managedfields/internal (managedfields.go, stripmeta.go, capmanagers.go, v0.36).
Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from localcluster.patch import fieldset
from localcluster.patch.fieldset import Path
from localcluster.schema.gotext import go_quote
from localcluster.wire import Json

MAX_UPDATE_MANAGERS: Final = 10
ANCIENT: Final = "ancient-changes"
STRIPPED: Final[frozenset[Path]] = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    }
)
"""Fields that no manager owns."""


class ManagerKey(NamedTuple):
    """What makes two operations the same manager. `api_version` is empty for an applier: it stays itself across
    versions."""

    manager: str
    operation: str
    api_version: str
    subresource: str

    def __str__(self) -> str:
        return go_quote(self.manager) + (f" with subresource {go_quote(self.subresource)}" if self.subresource else "")


@dataclass(frozen=True, slots=True)
class Owned:
    paths: frozenset[Path]
    api_version: str
    time: str = ""


Managed = dict[ManagerKey, Owned]


def key_of(manager: str, operation: str, api_version: str, subresource: str) -> ManagerKey:
    return ManagerKey(manager or "unknown", operation, "" if operation == "Apply" else api_version, subresource)


def read(entries: Any) -> Managed:
    """Raises ValueError for entries that are not sound."""
    managed: Managed = {}
    for index, entry in enumerate(entries or []):
        if entry.get("operation") not in ("Apply", "Update"):
            raise ValueError("operation must be `Apply` or `Update`")
        version = entry.get("apiVersion") or ""
        if not version:
            raise ValueError("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            kind = entry.get("fieldsType")
            raise ValueError(
                f"invalid fieldsType {go_quote(kind)} in managed fields entry {index}"
                if kind
                else f"missing fieldsType in managed fields entry {index}"
            )
        key = ManagerKey(
            entry.get("manager") or "",
            entry["operation"],
            "" if entry["operation"] == "Apply" else version,
            entry.get("subresource") or "",
        )
        managed[key] = Owned(frozenset(fieldset.decode(entry.get("fieldsV1") or {})), version, entry.get("time") or "")
    return managed


def write(managed: Managed) -> list[Json]:
    """Appliers first, each oldest first."""
    entries = []
    for key, owned in managed.items():
        entry: Json = {
            "apiVersion": owned.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldset.encode(owned.paths),
            "manager": key.manager,
            "operation": key.operation,
        }
        if key.subresource:
            entry["subresource"] = key.subresource
        if owned.time:
            entry["time"] = owned.time
        entries.append(entry)
    entries.sort(
        key=lambda e: (e["operation"], e.get("time", ""), e["manager"], e["apiVersion"], e.get("subresource", ""))
    )
    return entries


def strip(managed: Managed, key: ManagerKey) -> None:
    """Remove from `managed[key]` what is no longer owned, and the entry when nothing is left."""
    if key in managed:
        managed[key] = replace(managed[key], paths=managed[key].paths - STRIPPED)
        if not managed[key].paths:
            del managed[key]


def cap_update_managers(managed: Managed) -> None:
    """At most ten updaters: the oldest of one version become one, `ancient-changes`."""
    updaters = sorted((key for key in managed if key.operation == "Update"), key=lambda key: (managed[key].time, key))
    surplus = len(updaters) - MAX_UPDATE_MANAGERS
    first: dict[str, ManagerKey] = {}
    for key in updaters:
        if surplus <= 0:
            return
        owned = managed[key]
        bucket = ManagerKey(ANCIENT, "Update", owned.api_version, "")
        if owned.api_version not in first:
            first[owned.api_version] = key
            continue
        if bucket not in managed:
            managed[bucket] = managed.pop(first[owned.api_version])
        managed[bucket] = replace(owned, paths=owned.paths | managed[bucket].paths)
        if key != bucket:
            del managed[key]
        surplus -= 1
