"""JSON of the API server to objects, however deep it is nested. Pure. Raises orjson.JSONDecodeError as orjson does.

An API server takes JSON that is nested thousands of levels deep; orjson reads 1,024 levels and writes 254. One such
object in a list must not cost the list. So what lies deeper than DEEPEST becomes null: too deep to be written by anyone
here all the same, so that nobody can take the object for a whole one. No recursion, and one look at each byte; only
documents that orjson refuses are looked at.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

DEEPEST = 512
"""More than the 254 levels that orjson writes, and fewer than 1,024, with room for a list around the object."""

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A string, one that the document's end cuts off included, or a bracket. Possessive: a string is looked at once, even
in a document that is cut off."""


def loads(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        shallow = _without_depths(data)
        if shallow is data:
            raise
        return orjson.loads(shallow)


def _without_depths(data: bytes) -> bytes:
    """The same bytes when nothing in them lies too deep."""
    kept: list[bytes] = []
    depth = kept_to = 0
    for token in _TOKEN.finditer(data):
        byte = data[token.start()]
        if byte in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                kept.append(data[kept_to : token.start()])
        elif byte in b"]}":
            if depth == DEEPEST + 1:
                kept.append(b"null")
                kept_to = token.end()
            depth -= 1
    return b"".join((*kept, data[kept_to:])) if kept else data
