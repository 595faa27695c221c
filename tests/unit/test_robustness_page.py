"""docs/internals/robustness.md names what there is: files and rows of the simulation."""

from __future__ import annotations

import re

from tests.simulation.faults import ROWS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/internals/robustness.md").read_text(encoding="utf-8")


def test_each_file_that_it_names_is_there() -> None:
    named = set(re.findall(r"`((?:tests|tjworker|watcher|localcluster)/[\w./-]+)`", PAGE))
    assert len(named) > 20
    assert not [name for name in sorted(named) if not (ROOT / name).exists()]


def test_its_table_has_every_row_of_the_simulation() -> None:
    told = dict(re.findall(r"^\| (\d+) \| ([^|]*) \|$", PAGE, re.M))
    assert told == {str(number): row.sentence for number, row in ROWS.items()}
