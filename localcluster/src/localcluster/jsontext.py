"""JSON as deep as an API server takes it. orjson reads 1,024 levels and writes 254; what lies deeper goes through the
standard library, slowly. Pure.

Code that walks through such objects runs in `room`: Python allows 1,000 nested calls, and a walk takes some for each
level. A RecursionError inside `room` means that the object is too deep, here and in every walk.
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
        value = json.loads(text, parse_constant=_no_number)
    _refuse_deeper(value)
    return value


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


def _refuse_deeper(value: Any) -> None:
    """From Python 3.14 on json counts no calls: it reads as deep as the stack of the machine allows."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(_CALLS):
        level = [
            v
            for outer in level
            for v in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(v, (dict, list))
        ]
        if not level:
            return
    raise RecursionError


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
