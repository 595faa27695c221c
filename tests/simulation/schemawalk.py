"""Every field that a CRD's schema has, and for each the values worth trying: each choice, the smallest and largest, one
beyond either, empty, of the wrong type. Walks the CRDs, so that a field that is added is tried without a line
here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tjworker.api import crd
from tjworker.api.kinds import KINDS, KNOWN_KINDS
from tjworker.base import GroupResource

Json = dict[str, Any]
UNSET = "<unset>"
"""The field is not there. (A value that no schema allows as text of a field that matters.)"""
LONGEST_TRIED = 5_000
"""A string that may be longer is not tried at its bound: the API server's request limit would speak first."""

SAMPLES: Mapping[str, tuple[Any, ...]] = {
    "restartingExitCode": ("1", "137, 1"),
    "frameworkType": ("paddle", "pytorch"),
    "schedulerName": ("volcano", "default-scheduler"),
    "name": ("aitj-other", "side"),
}
"""Strings that mean something in the field of this name; for any other, `x` and `y-1`."""


@dataclass(frozen=True)
class Field:
    resource: GroupResource
    path: tuple[str | int, ...]
    """From the object's root; where the schema has a map or a list, the key or index that the base manifest has."""
    schema: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{_named(self.resource)}/" + ".".join(map(str, self.path))

    @property
    def values(self) -> tuple[Any, ...]:
        return (UNSET, *_values(str(self.path[-1]), self.schema))


def _named(resource: GroupResource) -> str:
    """Two families of guests have kinds of one name."""
    return KINDS[resource].plural if resource in KINDS else str(resource)


def fields(resource: GroupResource, base: Json) -> list[Field]:
    """Of the spec, with one entry of each map and list: that of `base`, which must have one."""
    definition = crd.build(KNOWN_KINDS[resource])
    stored = next(v for v in definition["spec"]["versions"] if v["storage"])
    schema = stored["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return [Field(resource, path, found) for path, found in _walk(schema, ("spec",), base["spec"])]


def _walk(schema: Json, path: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from _walk(inner, (*path, name), value.get(name) if isinstance(value, dict) else None)
    if isinstance(more := schema.get("additionalProperties"), dict):
        assert value, f"the base manifest has no entry in the map {path}, so its values would not be tried"
        key = max(value)
        yield from _walk(more, (*path, key), value[key])
    if "items" in schema:
        assert value, f"the base manifest has no entry in the list {path}, so its items would not be tried"
        yield from _walk(schema["items"], (*path, 0), value[0])


def _values(name: str, schema: Mapping[str, Any]) -> tuple[Any, ...]:
    if "enum" in schema:
        return (*schema["enum"], "", "Sometimes", 1)
    if schema.get("x-kubernetes-int-or-string"):
        return (1, "2", "250m", "much", -1, [])
    if "type" not in schema:
        return ("x", 1, True, {}, ["x"])  # anything goes: it is read and ignored
    low, high = schema.get("minimum"), schema.get("maximum")
    longest = schema.get("maxLength", LONGEST_TRIED + 1)
    by_type: Mapping[str, tuple[Any, ...]] = {
        "boolean": (True, False, "yes"),
        "integer": (
            *(() if low is None else (low, low + 1, low - 1)),
            *(() if high is None else (high, high + 1)),
            3,
            1.5,
            "two",
        ),
        "string": (
            *SAMPLES.get(name, ("x", "y-1")),
            "",
            *(() if longest > LONGEST_TRIED else ("x" * longest, "x" * (longest + 1))),
            1,
        ),
        "array": ([], "text"),
        "object": ({}, "text"),
    }
    return by_type[schema["type"]]


def put(manifest: Json, path: tuple[str | int, ...], value: Any) -> Json:
    """A copy with this value there (or without the field)."""
    new: Any = copy.deepcopy(manifest)
    at = new
    for step in path[:-1]:
        at = at.setdefault(step, {}) if isinstance(step, str) else at[step]
    if value != UNSET:
        at[path[-1]] = value
    elif isinstance(path[-1], int):
        del at[path[-1]]
    else:
        at.pop(path[-1], None)
    result: Json = new
    return result
