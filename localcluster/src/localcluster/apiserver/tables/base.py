"""The parts of a table printer. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.tables.durations import age_since
from localcluster.wire import Json

Row = list[Any]
NONE = "<none>"


@dataclass(frozen=True, slots=True)
class Printer:
    columns: list[Json]
    row: Callable[[Json, float], tuple[Row, Any]]
    """(object, now in unix seconds) -> (cells, row conditions or None)."""


def make_columns(*specs: str) -> list[Json]:
    """`Name:name` is the name column, `Node+` is shown with -o wide only, `Count#` holds integers."""
    found = []
    for spec in specs:
        name, _, form = spec.partition(":")
        priority = 1 if name.endswith("+") else 0
        name = name.rstrip("+")
        kind = "integer" if name.endswith("#") else "boolean" if name.endswith("?") else "string"
        name = name.rstrip("#?")
        found.append(
            {
                "name": name,
                "type": kind,
                "format": form,
                "description": _DESCRIPTIONS.get(name, name),
                "priority": priority,
            }
        )
    return found


_DESCRIPTIONS = {
    "Name": "Name must be unique within a namespace. Is required when creating resources, although some resources may "
    "allow a client to request the generation "
    "of an appropriate name automatically.",
    "Age": "CreationTimestamp is a timestamp representing the server time when this object was created.",
}


def age_of(obj: Json, now: float) -> str:
    return age_since(obj["metadata"].get("creationTimestamp"), now)


def container_cells(spec: Json) -> tuple[str, str]:
    """(names, images) of the containers."""
    containers = spec.get("containers", ())
    return ",".join(c.get("name", "") for c in containers), ",".join(c.get("image", "") for c in containers)


def selector_text(selector: Json | None) -> str:
    """A LabelSelector as one line."""
    if selector is None:
        return NONE
    parts = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    for expression in selector.get("matchExpressions", ()):
        key, values = expression["key"], ",".join(sorted(expression.get("values", ())))
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[expression["operator"]]
        )
    return ",".join(sorted(parts)) or NONE


def labels_text(labels: Json | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE
