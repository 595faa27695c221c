"""Which component schemas an OpenAPI schema refers to. Pure."""

from __future__ import annotations

from typing import Any

_PREFIX = "#/components/schemas/"


def references(schema: Any) -> set[str]:
    """The names of the schemas that this one refers to, however deep."""
    if isinstance(schema, dict):
        found = {schema["$ref"].removeprefix(_PREFIX)} if isinstance(schema.get("$ref"), str) else set()
        return found.union(*(references(value) for value in schema.values()))
    if isinstance(schema, list):
        return set().union(*(references(value) for value in schema))
    return set()
