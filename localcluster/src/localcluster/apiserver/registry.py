"""Which resources are served right now: the built-in table and what CustomResourceDefinitions add to it.

Lookups only; `crds.py` decides what a definition serves. Never touches the store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from localcluster.patch import Shape
from localcluster.resources import BUILTIN, Resource
from localcluster.wire import Json


@dataclass(frozen=True, slots=True)
class Custom:
    """What a definition says about one of its versions. The schema is compiled once."""

    definition: str
    schema: Any
    """localcluster.schema.StructuralSchema; None when the version has none."""
    raw_schema: Json
    shape: Shape
    """How lists and maps of the schema merge in server-side apply."""
    columns: tuple[Json, ...] = ()
    scale: Json | None = None
    has_status: bool = False
    storage_version: str = ""
    deprecation: str = ""
    since: int = 0
    """The revision of the definition that is served; older versions cannot be watched from."""


@dataclass(slots=True)
class Registry:
    _rows: dict[tuple[str, str, str], Resource] = field(
        default_factory=lambda: {(r.group, r.version, r.plural): r for r in BUILTIN}
    )
    _custom: dict[tuple[str, str, str], Custom] = field(default_factory=dict)
    generation: int = 0
    """Moves with each change; what is derived from the table (discovery, OpenAPI) is cached under it."""
    _groups: tuple[int, dict[str, list[str]]] = (-1, {})
    _of_version: tuple[int, dict[tuple[str, str], tuple[Resource, ...]]] = (-1, {})

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._rows.get((group, version, plural))

    def custom(self, resource: Resource) -> Custom | None:
        return self._custom.get((resource.group, resource.version, resource.plural)) if resource.custom else None

    def rows(self) -> list[Resource]:
        return list(self._rows.values())

    def rows_of(self, group: str, version: str) -> tuple[Resource, ...]:
        """By plural; empty for a version that is not served."""
        if self._of_version[0] != self.generation:
            found: dict[tuple[str, str], list[Resource]] = {}
            for row in sorted(self._rows.values(), key=lambda row: row.plural):
                found.setdefault((row.group, row.version), []).append(row)
            self._of_version = (self.generation, {name: tuple(rows) for name, rows in found.items()})
        return self._of_version[1].get((group, version), ())

    def served(self, group: str, version: str) -> bool:
        return bool(self.rows_of(group, version))

    def groups(self) -> dict[str, list[str]]:
        """group -> its versions, the preferred one first; the groups of definitions last, by name. Not to be changed.

        kubectl takes a short name that several groups have from the first of them. kube-apiserver lists the groups of
        definitions by name, whichever was installed first.
        """
        if self._groups[0] == self.generation:
            return self._groups[1]
        found: dict[str, list[str]] = {}
        for row in sorted(self._rows.values(), key=lambda row: row.group if row.custom else ""):
            versions = found.setdefault(row.group, [])
            if row.version not in versions:
                versions.append(row.version)
        groups = {group: sorted(versions, key=version_rank, reverse=True) for group, versions in found.items()}
        self._groups = (self.generation, groups)
        return groups

    def replace_definition(self, definition: str, rows: list[tuple[Resource, Custom]]) -> None:
        """Serve these rows for a definition instead of what it served before; an empty list stops it."""
        for key in [key for key, custom in self._custom.items() if custom.definition == definition]:
            del self._custom[key]
            del self._rows[key]
        for resource, custom in rows:
            key = (resource.group, resource.version, resource.plural)
            self._rows[key] = resource
            self._custom[key] = custom
        self.generation += 1


def version_rank(version: str) -> tuple[int, int, int]:
    """Kubernetes' order of versions: v2 > v1 > v1beta2 > v1alpha1."""
    found = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if found is None:
        return (-1, 0, 0)
    stage = {None: 2, "beta": 1, "alpha": 0}[found.group(2)]
    return (stage, int(found.group(1)), int(found.group(3) or 0))
