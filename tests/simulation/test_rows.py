"""The first tier: a sample of every row. `python -m tests.simulation all` has the whole figures."""

from __future__ import annotations

import pytest

from tests.simulation.faults import ROWS
from tests.simulation.quiet import quiet

TRACE_LINES = 400


@pytest.mark.parametrize(
    ("number", "group"),
    [
        pytest.param(
            row.number, group, id=f"row {row.number}: {row.sentence}: {group}", marks=pytest.mark.xdist_group(group)
        )
        for row in ROWS.values()
        for group in row.first
    ],
)
def test_a_sample_of_every_row(number: int, group: str) -> None:
    row = ROWS[number]
    with quiet():
        for run in row.first[group]():
            verdict = row.play(run)
            if verdict.wrong:
                trace = str(verdict.trace).splitlines()
                lines = [*verdict.wrong, f"again: make sim SEED={row.seed(run)}", *trace[:TRACE_LINES]]
                pytest.fail("\n".join(lines), pytrace=False)
