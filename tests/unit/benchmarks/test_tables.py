"""The tables of `docs/elasticity.md` are replaced between their marks, and nothing else is."""

from __future__ import annotations

import pytest

from benchmarks import tables
from tests.support.paths import ROOT

NAMES = ("benchmarks.edl", "benchmarks.pollux")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_the_marks_and_keeps_all_around_them(name: str) -> None:
    page = (ROOT / tables.PAGE).read_text(encoding="utf-8")
    changed = tables.replace_table(page, name, "| a |\n|---|\n")
    begin, end = tables.BEGIN.format(name=name), tables.END.format(name=name)
    assert changed.partition(begin)[0] == page.partition(begin)[0]
    assert changed.partition(end)[2] == page.partition(end)[2]
    assert f"{begin}\n\n| a |\n|---|\n\n{end}" in changed
    assert tables.replace_table(changed, name, "| a |\n|---|\n") == changed


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="must have the marks"):
        tables.replace_table("# A page", "benchmarks.edl", "| a |")
