"""docs/internals/upstream.md and ARCHITECTURE.md name places: each of them is there."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.paths import ROOT

PAGE = ROOT / "docs/internals/upstream.md"
ROW = re.compile(r"^\| (?!Upstream |---)(?P<name>.+?) \| (?P<here>.*?) \| (?P<why>.*?) ?\|$", re.MULTILINE)
QUOTED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PLACE = re.compile(r"(?P<module>(?:tjworker|watcher|beat_schedule)[\w.]*):(?P<name>[\w.]+)")
FOLDERS = ("tjworker/", "watcher/", "k8s/", "docs/", "tests/", "beat_schedule.py")


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


@pytest.mark.parametrize("place", places())
def test_the_place_is_there(place: str) -> None:
    found = PLACE.fullmatch(place)
    if found is None:
        assert (ROOT / place).exists(), f"a page names {place}, which is not there"
        return
    owner = importlib.import_module(found["module"])
    for name in found["name"].split("."):
        owner = attribute(owner, name)


def test_a_place_that_is_not_there_is_noticed() -> None:
    with pytest.raises(AttributeError):
        test_the_place_is_there("tjworker.settings:Settings.nothing_of_the_kind")


def test_every_row_says_where_or_why() -> None:
    told, lines = rows(), PAGE.read_text(encoding="utf-8").splitlines()
    tables = lines.count("| Upstream | Here | Why so |")
    assert (tables, len(told)) == (5, sum(line.startswith("| ") for line in lines) - tables), "a row is broken"
    for row in told:
        here, why = row["here"], row["why"]
        assert QUOTED.search(here) or (here in ("not needed", "to come") and why), (
            f"{row['name']}: says neither where nor why"
        )


def test_no_name_is_told_twice_in_one_section() -> None:
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        names = [row["name"] for row in ROW.finditer(section)]
        assert sorted(set(names)) == sorted(names)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)]+)\)", PAGE.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (Path(PAGE).parent / link).exists()] == []
