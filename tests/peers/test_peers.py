"""Each scenario of each row of the tables is played here, in virtual time."""

from __future__ import annotations

import re

import pytest

from tests.peers import kubedl, mpi_operator, training_operator
from tests.peers.__main__ import pages
from tests.peers.table import Play, Row, judge
from tests.support.guests import KIND_OF
from tests.support.paths import ROOT
from tjworker.api.generate import difference

TABLES = {"training-operator": training_operator.ROWS, "mpi-operator": mpi_operator.ROWS, "KubeDL": kubedl.ROWS}
ROWS = [(name, row) for name, rows in TABLES.items() for row in rows]
CASES = [
    pytest.param(row, play, id=f"{name}: {row.subject or row.rule[:60]} ({play.kind} {n})")
    for name, row in ROWS
    for n, play in enumerate(row.plays)
]


@pytest.mark.parametrize(("row", "play"), CASES)
def test_a_job_lives_as_the_table_says(row: Row, play: Play) -> None:
    try:
        judge(play)
    except AssertionError as error:
        error.add_note(f"rule: {row.rule}\nsource: {row.source}" + (f"\nhere: {row.here}" if row.here else ""))
        raise


def test_every_row_has_a_source_and_a_scenario() -> None:
    for _, row in ROWS:
        assert row.plays, row.rule
        assert re.match(r"(kubeflow|kubedl-io)/[a-z-]+ \S+", row.source), row.source
        assert bool(row.here) is bool(row.subject), row.rule
        assert all((play.ours is not None) is bool(row.here) for play in row.plays), row.rule
        assert row.here or row.rule[-1] == ".", f"a sentence: {row.rule}"


def test_every_kind_of_another_operator_has_a_table() -> None:
    assert {play.kind for _, row in ROWS for play in row.plays} == set(KIND_OF)


def test_the_pages_say_what_the_tables_say() -> None:
    assert difference(ROOT, pages()) == "", "run `make generate`"
