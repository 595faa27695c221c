"""JSON as deep as an API server takes it. orjson reads 1,024 levels and writes 254; what lies deeper goes through the
standard library, slowly. Pure.

`room` is for whoever walks through such objects: Python counts 1,000 calls, and a walk takes some for each level. Past
`room` RecursionError tells that an object is too deep, here and in every walk.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

_CALLS = 8_000
_UNREADABLE = "depth limit"


def loads(data: bytes | str) -> Any:
    """Raises ValueError as orjson does, and RecursionError."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if not str(error).startswith(_UNREADABLE):
            raise
    text = data if isinstance(data, str) else data.decode()
    with room():
        return json.loads(text, parse_constant=_no_number)


def dumps(value: Any) -> bytes:
    """Raises TypeError for what is no JSON, and RecursionError."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        with room():
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def copied(value: Any) -> Any:
    """Shares nothing with it."""
    return loads(dumps(value))


@contextmanager
def room() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _CALLS))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
