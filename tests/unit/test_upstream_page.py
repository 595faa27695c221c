"""docs/internals/upstream.md and ARCHITECTURE.md name places: each of them is there."""

from __future__ import annotations

import dataclasses
import importlib
import re
from typing import Any

from tests.support.paths import ROOT

PAGE = ROOT / "docs/internals/upstream.md"
ROW = re.compile(r"^\| (?!Upstream |---)(?P<name>.+?) \| (?P<here>.*?) \| (?P<why>.*?) ?\|$", re.MULTILINE)
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PLACE = re.compile(r"(?P<module>[a-z][\w.]*):(?P<name>[\w.]+)")
PACKAGES = ("tjworker", "tjstack", "watcher")
FOLDERS = ("tjworker/", "tjstack/", "watcher/", "k8s/", "docs/", "tests/", "beat_schedule.py")


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer(PAGE.read_text(encoding="utf-8")))


def places() -> list[str]:
    """Everything on the page that is written as a place, once each."""
    quoted = [text for page in (PAGE, ROOT / "ARCHITECTURE.md") for text in QUOTED.findall(page.read_text("utf-8"))]
    return sorted({text for text in quoted if PLACE.fullmatch(text) or text.startswith(FOLDERS)})


def attribute(owner: Any, name: str) -> Any:
    """A name of a module, a field of a model or a dataclass, a method."""
    fields = getattr(owner, "model_fields", {}) or (
        {field.name: field for field in dataclasses.fields(owner)} if dataclasses.is_dataclass(owner) else {}
    )
    return fields[name] if name in fields else getattr(owner, name)


def test_the_places_are_there() -> None:
    assert [place for place in places() if not is_there(place)] == []
    assert not is_there("settings:Settings.nothing_of_the_kind")


def is_there(place: str) -> bool:
    found = PLACE.fullmatch(place)
    if found is None:
        return (ROOT / place).exists()
    module = found["module"]
    owner = importlib.import_module(module if module.startswith(PACKAGES) else f"tjworker.{module}")
    try:
        for name in found["name"].split("."):
            owner = attribute(owner, name)
    except AttributeError:
        return False
    return True


def test_every_row_says_where_or_why() -> None:
    told, lines = rows(), PAGE.read_text(encoding="utf-8").splitlines()
    tables = lines.count("| Upstream | Here | Why so |")
    assert (tables, len(told)) == (5, sum(line.startswith("| ") for line in lines) - tables), "a row is broken"
    for row in told:
        here, why = row["here"], row["why"]
        assert QUOTED.search(here) or (here in ("not needed", "to come") and why), (
            f"{row['name']}: says neither where nor why"
        )
