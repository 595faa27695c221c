"""Defaults, and the nulls that count as absent.

Mirrors apiextensions' schema/defaulting (prunenulls.go, algorithm.go). Changes its argument; a second run changes
nothing.
"""

from __future__ import annotations

from typing import Any

from localcluster.schema.correlate import clone
from localcluster.schema.node import SchemaNode


def drop_nulls(value: Any, node: SchemaNode | None) -> None:
    """Takes out fields that are null, may not be null and have no default."""
    if isinstance(value, dict):
        for key in list(value):
            inner = value[key]
            if inner is None:
                child = node.child(key) if node else None
                if child is not None and not child.nullable and child.default is None:
                    del value[key]
            elif isinstance(inner, dict | list):
                drop_nulls(inner, node.child(key) if node else None)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, node.items if node else None)


def _null_for_default(value: Any, node: SchemaNode | None) -> bool:
    return value is None and node is not None and not node.nullable


def apply_defaults(value: Any, node: SchemaNode | None) -> None:
    if node is None:
        return
    if isinstance(value, dict):
        for key, prop in node.properties.items():
            if prop.default is not None and (key not in value or _null_for_default(value[key], prop)):
                value[key] = clone(prop.default)
        for key, inner in value.items():
            if (
                inner is None
                and key not in node.properties
                and (child := node.child(key)) is not None
                and not child.nullable
            ):
                value[key] = clone(child.default)
            if isinstance(value[key], dict | list):
                apply_defaults(value[key], node.child(key))
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if _null_for_default(item, node.items):
                value[index] = clone(node.items.default)
            apply_defaults(value[index], node.items)
