"""Each scenario of each row of the tables is played here, in virtual time."""

from __future__ import annotations

import pytest

from tests.peers import kubedl, mpi_operator, training_operator
from tests.peers.table import Play, Row, judge

TABLES = {"training-operator": training_operator.ROWS, "mpi-operator": mpi_operator.ROWS, "KubeDL": kubedl.ROWS}
CASES = [
    pytest.param(row, play, id=f"{name}: {row.subject or row.rule[:60]} ({play.kind} {n})")
    for name, rows in TABLES.items()
    for row in rows
    for n, play in enumerate(row.plays)
]


@pytest.mark.parametrize(("row", "play"), CASES)
def test_a_job_lives_as_the_table_says(row: Row, play: Play) -> None:
    try:
        judge(play)
    except AssertionError as error:
        error.add_note(f"rule: {row.rule}\nsource: {row.source}" + (f"\nhere: {row.here}" if row.here else ""))
        raise
