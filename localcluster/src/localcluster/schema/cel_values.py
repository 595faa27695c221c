"""A JSON value as a CEL rule sees it: typed by its schema, with field names escaped.

Mirrors apiextensions' schema/cel/values.go and apiserver's cel/escaping.go: only fields that the schema declares are
visible, of metadata only name and generateName, numbers of type `number` are doubles, strings of format date-time,
date, duration and byte are timestamps, durations and bytes. Pure.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
from dataclasses import replace
from typing import Any, Final

from localcluster.schema import formats
from localcluster.schema.node import SchemaNode

_RESERVED: Final = """
true false null in as break const continue else for function if import let loop package namespace return var void while
"""
RESERVED: Final = frozenset(_RESERVED.split())
SELECTABLE: Final = RESERVED - {"true", "false", "null", "in"}
"""Reserved words that need no escape behind a dot: `self.namespace`."""
_ESCAPABLE: Final = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*")
_PARTS: Final = re.compile(r"__|\.|-|/")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_TEXT: Final = SchemaNode(types=("string",))
_VISIBLE_METADATA: Final = SchemaNode(types=("object",), properties={"name": _TEXT, "generateName": _TEXT})
_RFC3339: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[tT](\d{2}:\d{2}:\d{2})(\.\d+)?([zZ]|[+-]\d{2}:\d{2})")


def escape_name(name: str) -> str | None:
    """The name of a field in CEL, None when it has none."""
    if not _ESCAPABLE.fullmatch(name):
        return None
    if name in RESERVED:
        return f"__{name}__"
    return _PARTS.sub(lambda part: _ESCAPES[part[0]], name)


def names_of(field: str) -> tuple[str, ...]:
    """Behind a dot: its name in CEL, and for a reserved word the word itself (apiserver's cel/types.go,
    recognizeKeywordAsFieldName)."""
    name = escape_name(field)
    return () if name is None else (name, field) if field in SELECTABLE else (name,)


def with_type_and_metadata(node: SchemaNode) -> SchemaNode:
    """The node of a whole resource: type and a little of the metadata are always declared."""
    return replace(
        node, properties={**node.properties, "apiVersion": _TEXT, "kind": _TEXT, "metadata": _VISIBLE_METADATA}
    )


def is_declared(node: SchemaNode | None) -> bool:
    """Has the schema a type for CEL? What has none (a bare preserve-unknown-fields) is not visible at all."""
    return node is not None and bool(node.types)


def _parse_timestamp(text: str) -> Any:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return text
    fraction = (match[3] or "")[:7]
    try:
        return datetime.datetime.fromisoformat(
            f"{match[1]}T{match[2]}{fraction}{match[4].upper().replace('Z', '+00:00')}"
        )
    except ValueError:
        return text


def _convert_string(value: str, format_name: str) -> Any:
    name = formats.normalize_name(format_name)
    if name == "byte":
        try:
            return base64.b64decode(value.encode(), validate=True)
        except binascii.Error:
            return value
    if name == "datetime":
        return _parse_timestamp(value)
    if name == "date":
        return _parse_timestamp(value + "T00:00:00Z")
    if name == "duration":
        parsed = formats.parse_duration(value)
        return value if parsed is None else parsed
    return value


def _convert_fields(value: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
    if not node.properties:
        extra = node.additional_node
        return {key: to_cel(child, extra) for key, child in value.items()} if is_declared(extra) else {}
    visible = {}
    for key, child in value.items():
        schema = node.properties.get(key)
        name = escape_name(key)
        if schema is not None and name is not None and is_declared(schema):
            visible[name] = to_cel(child, schema)
            if key in SELECTABLE:
                visible[key] = visible[name]
    return visible


def to_cel(value: Any, node: SchemaNode | None) -> Any:  # noqa: PLR0911 - one line a type
    if node is None or value is None:
        return value
    if isinstance(value, dict):
        return _convert_fields(value, node)
    if isinstance(value, list):
        return [to_cel(item, node.items) for item in value]
    if isinstance(value, bool) or node.int_or_string:
        return value
    if isinstance(value, int) and node.type == "number":
        return float(value)
    if isinstance(value, float) and node.type == "integer" and value.is_integer():
        return int(value)
    if isinstance(value, str) and node.type == "string" and node.format:
        return _convert_string(value, node.format)
    return value
