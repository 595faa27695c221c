"""Sets of field paths, and `fieldsV1`, their form in managedFields.

A path is a tuple of elements as fieldsV1 spells them: `f:<field>`, `k:{"name":"a"}`, `v:<value>`, `i:<index>`. Mirrors
sigs.k8s.io/structured-merge-diff/v6/fieldpath. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import orjson

from localcluster.schema.gotext import go_json

Path = tuple[str, ...]
_ORDER: Final = {"f": 0, "k": 1, "v": 2, "i": 3}


def decode(fields: Any) -> set[Path]:
    """Raises ValueError for what is not fieldsV1."""
    found: set[Path] = set()
    if not isinstance(fields, dict):
        raise ValueError("fieldsV1 must be an object")
    _decode(fields, (), found)
    return found


def _decode(fields: dict[str, Any], path: Path, found: set[Path]) -> None:
    for element, below in fields.items():
        if element == ".":
            found.add(path)
            continue
        if element[1:2] != ":":
            raise ValueError(f"missing colon: {element}")
        place = (*path, element)
        if not isinstance(below, dict):
            raise ValueError(f"fieldsV1 of {element} must be an object")
        if below:
            _decode(below, place, found)
        else:
            found.add(place)


def _rank_element(element: str) -> tuple[int, str]:
    return _ORDER.get(element[0], 9), element


def encode(paths: Iterable[Path]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in paths:
        place = tree
        for element in path:
            place = place.setdefault(element, {})
        place["."] = True
    return _tidy_tree(tree)


def _tidy_tree(tree: dict[str, Any]) -> dict[str, Any]:
    names = sorted((name for name in tree if name != "."), key=_rank_element)
    tidied: dict[str, Any] = {".": {}} if "." in tree and names else {}
    for name in names:
        tidied[name] = _tidy_tree(tree[name])
    return tidied


def element_text(element: str) -> str:
    """The element as a message shows it: `.spec`, `[name="a"]`, `[="x"]`, `[0]`."""
    kind, text = element[0], element[2:]
    if kind == "f":
        return f".{text}"
    if kind == "k":
        keys = orjson.loads(text)
        return "[" + ",".join(f"{name}={go_json(keys[name])}" for name in sorted(keys)) + "]"
    return f"[={text}]" if kind == "v" else f"[{text}]"


def path_text(path: Path) -> str:
    return "".join(map(element_text, path))


def path_rank(path: Path) -> tuple[tuple[int, str], ...]:
    """Sorts paths as the API server lists them."""
    return tuple(map(_rank_element, path))
