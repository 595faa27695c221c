"""Lists that are sets or maps: no item twice.

Mirrors apiextensions' schema/listtype/validation.go. Pure.
"""

from __future__ import annotations

from typing import Any

from localcluster.schema.causes import FieldCause, duplicate, invalid
from localcluster.schema.gotext import go_json
from localcluster.schema.node import SchemaNode


def _find_repeated(values: list[Any]) -> list[int]:
    """The indices at which a value occurs for the second time. Later occurrences are not reported."""
    times: dict[str, int] = {}
    found = []
    for index, value in enumerate(values):
        key = f"{type(value).__name__}:{go_json(value)}"
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            found.append(index)
    return found


def _list_map(path: str, node: SchemaNode, items: list[Any]) -> list[FieldCause]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    keys = [{k: item[k] for k in node.list_map_keys if k in item} if item else {} for item in items]
    return [duplicate(f"{path}[{index}]", keys[index]) for index in _find_repeated(keys)]


def validate_lists(value: Any, node: SchemaNode | None, path: str = "") -> list[FieldCause]:
    causes: list[FieldCause] = []
    if node is None:
        return causes
    if isinstance(value, dict):
        for key, child in value.items():
            if not isinstance(child, dict | list):
                continue
            if node.additional_node is not None:
                causes += validate_lists(child, node.additional_node, f"{path}[{key}]")
            if key in node.properties:
                causes += validate_lists(child, node.properties[key], f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        if node.list_type == "set":
            causes += [duplicate(f"{path}[{index}]", value[index]) for index in _find_repeated(value)]
        elif node.list_type == "map":
            causes += _list_map(path, node, value)
        for index, item in enumerate(value):
            causes += validate_lists(item, node.items, f"{path}[{index}]")
    return causes
