"""JSON that the API server takes is read, however deep it is; what lies too deep is left out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from tjworker.kube.decode import DEEPEST, loads


def nested(depth: int, of: str = "object") -> str:
    """So many levels."""
    opens, closes = ('{"a":', "}") if of == "object" else ("[", "]")
    return opens * depth + "1" + closes * depth


def depth(value: Any) -> int:
    levels, at = 0, [value]
    while at := [inner for one in at for inner in _inside(one)]:
        levels += 1
    return levels


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


SAME: dict[str, str] = {
    "an ordinary object": '{"a": [1, {"b": "c"}], "d": null}',
    "as deep as may be written": nested(254),
    "brackets within strings": json.dumps({"a": "[" * 5000 + "\\" + '"' + "{" * 5000}),
}


@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_what_can_be_read_is_read_as_it_is(text: str) -> None:
    assert loads(text.encode()) == orjson.loads(text)


DEEP: dict[str, str] = {
    "objects": nested(5_000),
    "both, in turn": '{"a":[' * 2_000 + "]}" * 2_000,
    "beside strings with brackets and quotes": '{"s": "]}\\\\\\"[{", "deep": ' + nested(3_000) + ', "t": "\\"]"}',
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP.keys())
def test_what_is_too_deep_to_be_read_ends_in_null(text: str) -> None:
    assert depth(loads(text.encode())) == DEEPEST


def test_the_neighbours_of_what_is_too_deep_are_whole() -> None:
    page = b'{"items": [{"name": "a"}, %s, {"name": "b", "s": "}]"}], "metadata": {}}' % nested(9_000).encode()
    before, deep, after = loads(page)["items"]
    assert (before, after) == ({"name": "a"}, {"name": "b", "s": "}]"})
    with pytest.raises(orjson.JSONEncodeError):
        orjson.dumps(deep)  # nobody takes it for a whole one


BROKEN = (
    "",
    "{",
    nested(3_000)[:-5],
    '{"a": "' + "[" * 2_000,
    nested(2_000) + "x",
    "[1,]",
    '{"a": "' + '\\"' * 200_000,
)


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_json_is_refused_as_ever(text: str) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        loads(text.encode())
