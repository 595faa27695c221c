"""Rows of custom resources from their additionalPrinterColumns. Pure."""

from __future__ import annotations

from typing import Any

from localcluster.apiserver import jsonpath
from localcluster.apiserver.registry import Custom
from localcluster.apiserver.tables.base import Printer, Row, make_columns
from localcluster.apiserver.tables.durations import age_since
from localcluster.wire import Json

_AGE: Json = {
    "name": "Age",
    "type": "date",
    "jsonPath": ".metadata.creationTimestamp",
    "description": (
        "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
        "guaranteed to be set in happens-before order "
        "across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC."
    ),
}


def printer(custom: Custom) -> Printer:
    extra = custom.columns or (_AGE,)
    head = make_columns("Name:name") + [
        {
            "name": c["name"],
            "type": c["type"],
            "format": c.get("format", ""),
            "description": c.get("description") or _describe_column(c),
            "priority": c.get("priority", 0),
        }
        for c in extra
    ]
    paths = [(jsonpath.compile_path(c["jsonPath"]), c["type"]) for c in extra]

    def row(obj: Json, now: float) -> tuple[Row, Any]:
        return [obj["metadata"]["name"], *(_format_cell(path(obj), kind, now) for path, kind in paths)], None

    return Printer(head, row)


def _describe_column(column: Json) -> str:
    return f"Custom resource definition column (in JSONPath format): {column['jsonPath']}"


def _format_cell(values: list[Any], kind: str, now: float) -> Any:
    """Kubernetes shows the first value only, and nothing at all where the type does not fit."""
    if not values:
        return None
    value = values[0]
    if kind == "string":
        return jsonpath.show(value)
    if kind == "date":
        return age_since(value, now) if isinstance(value, str) else "<unknown>"
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else float(value)
