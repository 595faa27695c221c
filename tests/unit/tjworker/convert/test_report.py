"""How the report of a conversion shows values and names fields."""

from __future__ import annotations

from typing import Any

import pytest

from tjworker.convert.report import MOST_OF_A_VALUE, Left, Path, at, printed, shown


@pytest.mark.parametrize("more", [-1, 0, 1, 500])
def test_a_long_value_is_cut_and_no_other(more: int) -> None:
    whole = '"' + "x" * (MOST_OF_A_VALUE + more - 2) + '"'
    told = shown(whole[1:-1])
    assert told == (whole if more <= 0 else whole[: MOST_OF_A_VALUE - 3] + "...")
    assert len(told) == min(len(whole), MOST_OF_A_VALUE)


@pytest.mark.parametrize(
    ("value", "want"),
    [(None, "null"), (True, "true"), (0, "0"), ("", '""'), ("größe", '"größe"'), ([1], "[1]"), ({}, "{}")],
)
def test_a_value_is_shown_as_json(value: Any, want: str) -> None:
    assert shown(value) == want
    assert str(Left("spec.x", value, "why", "do this")) == f"spec.x: {want}: why; do this"


@pytest.mark.parametrize(
    ("path", "want"),
    [((), ""), (("spec",), "spec"), (("spec", "a", 0, "b"), "spec.a[0].b"), (("spec", 1, 2), "spec[1][2]")],
)
def test_a_path_is_printed_as_kubectl_does(path: Path, want: str) -> None:
    assert printed(path) == want


RAW = {"spec": {"a": [{"b": 0}, {"b": 2}], "c": None}}
FOUND: dict[str, Any] = {
    "spec.a[0].b": 0,
    "spec.a[1].b": 2,
    "spec.a[2].b": None,
    "spec.a.b": None,
    "spec.c": None,
    "spec.c.d": None,
    "spec[0]": None,
    "spec.x": None,
}


@pytest.mark.parametrize("path", FOUND)
def test_the_value_of_a_printed_path(path: str) -> None:
    assert at(RAW, path) == FOUND[path]
