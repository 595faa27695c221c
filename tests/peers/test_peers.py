"""Each scenario of each row of the tables is played here, in virtual time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from tests.peers import kubedl, mpi_operator, training_operator
from tests.peers.__main__ import pages
from tests.peers.table import Play, Row, judge
from tests.support.guests import KIND_OF
from tests.support.paths import ROOT
from tjworker.api.generate import difference

TABLES = {"training-operator": training_operator.ROWS, "mpi-operator": mpi_operator.ROWS, "KubeDL": kubedl.ROWS}
ROWS = [(name, row) for name, rows in TABLES.items() for row in rows]


def cases() -> Iterator[ParameterSet]:
    """The first scenario of each second row, and one of each kind, in `make test`; all others in `make test-long`."""
    kinds: set[str] = set()
    for place, (name, row) in enumerate(ROWS):
        for n, play in enumerate(row.plays):
            marks = [pytest.mark.long] if (n or place % 2) and play.kind in kinds else []
            kinds.add(play.kind)
            subject = row.subject or row.rule[:60]
            yield pytest.param(row, play, id=f"{name}: {subject} ({play.kind} {n})", marks=marks)


@pytest.mark.parametrize(("row", "play"), list(cases()))
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
