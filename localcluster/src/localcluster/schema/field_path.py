"""`fieldPath` of a CEL rule: `.a.b['c.d']`, checked against the schema and normalised to a field path.

Mirrors ValidFieldPath of apiextensions' schema/cel/validation.go. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from localcluster.schema.node import SchemaNode

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\['((?:\\.|[^'\\])*)'\]")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


class FieldPathError(ValueError):
    """The path is malformed, or there is no such field."""


def normalize_field_path(text: str, node: SchemaNode) -> str:
    current: SchemaNode | None = node
    position, out = 0, ""
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise FieldPathError(f"expected [ or . but got: {text[position:]}")
        position = match.end()
        name = match[1] if match[1] is not None else _ESCAPE.sub(lambda m: _ESCAPES.get(m[1], m[1]), match[2])
        if current is not None and current.properties and name in current.properties:
            out += f".{name}" if out else name
            current = current.properties[name]
        elif current is not None and not current.properties and current.additional_node is not None:
            out += f"[{name}]"
            current = current.additional_node
        else:
            raise FieldPathError("does not refer to a valid field")
    return out
