"""Decodes JSON of the API server, however deep it is nested. Pure. Raises orjson.JSONDecodeError.

An API server accepts JSON that is nested thousands of levels deep. orjson reads 1,024 levels and writes 254. One such
object must not make its whole list unreadable, so everything deeper than DEEPEST is read as null.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

DEEPEST = 512
"""More than the 254 levels that orjson writes, and fewer than 1,024, with room for a list around the object."""

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A string, or a bracket outside of strings. A string may be cut off by the end of the document. Possessive, so that
each byte is read once: with backtracking a cut-off document could take quadratic time."""


def loads(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        # Searched only now: few documents are refused, and the search takes longer than the parser.
        shallow = _without_depths(data)
        if shallow is data:
            raise
        return orjson.loads(shallow)


def _without_depths(data: bytes) -> bytes:
    """The document with null for everything deeper than DEEPEST; `data` itself if nothing is. Not recursive: the depth
    is the attack."""
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
