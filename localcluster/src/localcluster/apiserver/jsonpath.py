"""The JSONPath of printer columns and scale paths: fields, indexes, slices, wildcards and simple filters. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import orjson

_STEP = re.compile(
    r"\.?\[\s*(?P<all>\*)\s*\]|\.?\[\s*(?P<index>-?\d+)\s*\]|\.?\[(?P<slice>-?\d*:-?\d*(?::\d*)?)\]"
    r"|\.?\[\s*['\"](?P<quoted>(?:[^'\"\\]|\\.)+)['\"]\s*\]"
    r"|\.?\[\?\(\s*(?P<filter>.+?)\s*\)\]|\.(?P<name>(?:[^.\[\]\\]|\\.)+)"
)
_FILTER = re.compile(r"^@((?:\.[^\s=!<>]+)?)\s*(==|!=|<=|>=|<|>)\s*(.+)$")
Step = Callable[[Any], list[Any]]


class PathError(ValueError):
    """The path cannot be read; the message says from where on."""


@lru_cache(1024)
def compile_path(text: str) -> Callable[[Any], list[Any]]:
    """A function from an object to the values that the path finds. Raises PathError for a path that it cannot read."""
    steps: list[Step] = []
    position, text = 0, text if text.startswith((".", "[")) else "." + text
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise PathError(f"{text} cannot be read from {text[position:]!r} on")
        steps.append(_step(found))
        position = found.end()

    def find(obj: Any) -> list[Any]:
        values = [obj]
        for step in steps:
            values = [result for value in values for result in step(value)]
        return [value for value in values if value is not None]

    return find


def _step(found: re.Match[str]) -> Step:
    if found["all"] or found["name"] == "*":
        return _children
    if found["index"]:
        number = int(found["index"])
        return lambda value: [value[number]] if isinstance(value, list) and -len(value) <= number < len(value) else []
    if found["slice"]:
        return _compile_slice(found["slice"])
    if found["filter"]:
        return _compile_filter(found["filter"])
    name = (found["quoted"] or found["name"]).replace("\\", "")
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _compile_slice(text: str) -> Step:
    """Slices as client-go does: a bound outside of the list finds nothing, where Python would cut."""
    begin, end, step = (int(part) if part else None for part in (*text.split(":"), "")[:3])

    def find(value: Any) -> list[Any]:
        if not isinstance(value, list):
            return []
        first, last = (
            default if bound is None else bound + len(value) if bound < 0 else bound
            for bound, default in ((begin, 0), (end, len(value)))
        )
        return value[first : last : step or 1] if 0 <= first <= last <= len(value) and step != 0 else []

    return find


def _children(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def _compile_filter(text: str) -> Step:
    compared = _FILTER.match(text)
    if compared is None:
        exists = compile_path(text.lstrip("@"))
        return lambda value: [item for item in _children(value) if exists(item)]
    path, operator, literal = compared.groups()
    wanted: Any = literal.strip()
    wanted = wanted[1:-1] if wanted[:1] in "'\"" else orjson.loads(wanted)
    find = compile_path(path) if path else (lambda item: [item])
    return lambda value: [
        item for item in _children(value) if any(_compare(got, operator, wanted) for got in find(item))
    ]


def _compare(got: Any, operator: str, wanted: Any) -> bool:
    if operator in ("==", "!="):
        return (got == wanted) is (operator == "==")
    if type(got) is not type(wanted):
        return False
    return bool({"<": got < wanted, ">": got > wanted, "<=": got <= wanted, ">=": got >= wanted}[operator])


def show(value: Any) -> str:
    """Returns the text that Go prints for a value in a column."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return orjson.dumps(value).decode()
