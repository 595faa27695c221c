"""Fields of an object that its schema does not know, where the schema does not leave the object open: the API server
drops them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_ANYTHING = "x-kubernetes-preserve-unknown-fields"


@dataclass(frozen=True, slots=True)
class Unknown:
    path: str
    """The field, as kubectl prints it."""
    name: str
    value: Any
    known: Collection[str]
    """The names of the fields that are known there."""


def unknown_fields(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Unknown]:
    """In the order of the object. `schema`: structural, of `value`."""
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            yield from unknown_fields(item, schema["items"], f"{path}[{i}]")
    if not isinstance(value, dict):
        return
    fields, others = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, part in value.items():
        if name in fields:
            yield from unknown_fields(part, fields[name], f"{path}.{name}")
        elif isinstance(others, Mapping):
            yield from unknown_fields(part, others, f"{path}.{name}")
        # An object without declared fields, such as a pod template's, is open to any.
        elif fields and not schema.get(_ANYTHING):
            yield Unknown(f"{path}.{name}", str(name), part, fields)
