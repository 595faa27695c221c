"""Embedded resources (x-kubernetes-embedded-resource): they need an apiVersion and a kind.

Mirrors apiextensions' schema/objectmeta/validation.go, for type and name; the rest of the embedded metadata is not checked.
Pure.
"""

from __future__ import annotations

import re
from typing import Any, Final

from localcluster.schema.causes import FieldCause, invalid, required
from localcluster.schema.node import Node

_DNS1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _api_version(value: Any, path: str) -> list[FieldCause]:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    if not value:
        return [invalid(path, value, "must not be empty")]
    return [invalid(path, value, f"unexpected GroupVersion string: {value}")] if value.count("/") > 1 else []


def _kind(value: Any, path: str) -> list[FieldCause]:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    if not value:
        return [invalid(path, value, "must not be empty")]
    if len(value) > 63:
        return [
            invalid(path, value, "may have mixed case, but should otherwise match: must be no more than 63 characters")
        ]
    if not _DNS1035.fullmatch(value.lower()):
        return [invalid(path, value, f"may have mixed case, but should otherwise match: {_DNS1035_RULE}")]
    return []


def _resource(value: dict[str, Any], path: str) -> list[FieldCause]:
    causes = [required(_join(path, key)) for key in ("apiVersion", "kind") if key not in value]
    for key, check in (("apiVersion", _api_version), ("kind", _kind)):
        if key in value:
            causes += check(value[key], _join(path, key))
    return causes


def validate_embedded(value: Any, node: Node | None, path: str = "") -> list[FieldCause]:
    causes: list[FieldCause] = []
    if node is None:
        return causes
    if isinstance(value, dict):
        if node.embedded:
            causes += _resource(value, path)
        for key, child in value.items():
            if key in node.properties:
                causes += validate_embedded(child, node.properties[key], _join(path, key))
            elif node.additional_node is not None:
                causes += validate_embedded(child, node.additional_node, f"{path}[{key}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            causes += validate_embedded(item, node.items, f"{path}[{index}]")
    return causes
