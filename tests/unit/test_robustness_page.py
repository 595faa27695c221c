"""docs/internals/robustness.md names what there is: files, rows, rules of the model, bugs of the catalogue. Its figures
are those of a day; what they are figures of must still be found."""

from __future__ import annotations

import re

from tests.model.rules import RULES
from tests.simulation.faults import ROWS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/internals/robustness.md").read_text(encoding="utf-8")
BESIDE = (
    *("", "tests", "tests/hostile", "tests/unit/tjworker", "tests/unit/tjworker/reconcile"),
    *("tests/unit/tjworker/reconcile/policies", "tests/unit/tjworker/autoscale", "tests/unit/tjworker/kube"),
    *("tests/unit/watcher", "localcluster/tests", "tjworker/reconcile/policies"),
)
"""Folders that a name may begin in: a table's column says which, and its cells do not say it again."""


def rows_of(*columns: str) -> list[tuple[str, ...]]:
    """The rows of all its tables with these columns, as far as these."""
    found, wanted = [], False
    for line in PAGE.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))[: len(columns)]
        if not line.startswith("|"):
            wanted = False
        elif cells == columns:
            wanted = True
        elif wanted and not set(line) <= set("|-"):
            found.append(cells)
    return found


def test_each_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`([\w./-]+\.(?:py|txt|lua|ya?ml))(?::[^`]*)?`", PAGE))
    assert len(named) > 60
    missing = [name for name in sorted(named) if not any((ROOT / folder / name).exists() for folder in BESIDE)]
    assert not missing


def test_each_row_of_the_simulation_is_told_by_its_own_sentence() -> None:
    told = {
        int(number): what
        for number, _, _, _, _, what in rows_of("row", "runs", "divergent", "surplus pods", "ms a life", "what")
    }
    assert set(told) | {28, 29} == set(ROWS), "28 and 29 are told below the table"
    for number, what in told.items():
        assert what.startswith(ROWS[number].sentence), number


def test_its_table_of_the_models_rules_is_of_all_of_them() -> None:
    assert [cells[0] for cells in rows_of("rule", "histories of 200", "cases")] == list(RULES)
