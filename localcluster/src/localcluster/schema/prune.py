"""Unknown fields: taken out of an object, and named for field validation.

Mirrors apiextensions' schema/pruning/algorithm.go and the decoding of ObjectMeta. Changes its argument; a second run
finds nothing.
"""

from __future__ import annotations

from typing import Any, Final

from localcluster.schema.node import SchemaNode
from localcluster.wire import Json

META: Final = frozenset({"apiVersion", "kind", "metadata"})
_OWNER: Final = frozenset({"apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"})
_MANAGED: Final = frozenset({"manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource"})
_OBJECT_META: Final = frozenset(
    {
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    }
)


class _Pruner:
    def __init__(self) -> None:
        self.unknown: list[str] = []

    def prune(self, value: Any, node: SchemaNode | None, path: str) -> None:
        if node is not None and node.preserve:
            # Fields that are declared below it are still pruned.
            self._skip_preserved(value, node, path)
        elif isinstance(value, dict):
            self._prune_fields(value, node, path)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self.prune(item, node.items if node else None, f"{path}[{index}]")

    def _prune_fields(self, value: Json, node: SchemaNode | None, path: str) -> None:
        for key in list(value):
            # `prune_metadata` handles these: no schema declares the fields that every object has.
            if node is not None and node.embedded and key in META:
                continue
            if node is not None and (key in node.properties or node.additional is not None):
                if isinstance(value[key], dict | list):
                    self.prune(value[key], node.child(key), f"{path}.{key}" if path else key)
            else:
                if key not in META or path or node is None:
                    self.unknown.append(f"{path}.{key}" if path else key)
                del value[key]

    def _skip_preserved(self, value: Any, node: SchemaNode | None, path: str) -> None:
        if node is None:
            return
        if isinstance(value, dict):
            for key, child in value.items():
                if node.embedded and key in META:
                    continue
                child_path = f"{path}.{key}" if path else key
                if key in node.properties:
                    self.prune(child, node.properties[key], child_path)
                elif node.additional is not None:
                    self.prune(child, node.additional_node, child_path)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                self._skip_preserved(item, node.items, f"{path}[{index}]")


def prune_value(value: Any, node: SchemaNode) -> list[str]:
    """The paths taken out, sorted."""
    pruner = _Pruner()
    pruner.prune(value, node, "")
    return sorted(pruner.unknown)


def _drop_unknown(value: Any, known: frozenset[str], path: str) -> list[str]:
    if not isinstance(value, dict):
        return []
    unknown = [key for key in value if key not in known]
    for key in unknown:
        del value[key]
    return [f"{path}.{key}" for key in unknown]


def prune_metadata(metadata: Any, path: str) -> list[str]:
    """ObjectMeta is a fixed type: whatever it does not have is dropped, lists of objects included."""
    unknown = _drop_unknown(metadata, _OBJECT_META, path)
    if isinstance(metadata, dict):
        for field, known in (("ownerReferences", _OWNER), ("managedFields", _MANAGED)):
            items = metadata.get(field)
            for index, item in enumerate(items if isinstance(items, list) else []):
                unknown += _drop_unknown(item, known, f"{path}.{field}[{index}]")
    return unknown
