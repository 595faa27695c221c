"""The first tier: a sample of every row. `python -m tests.sim all` has the whole figures."""

from __future__ import annotations

import pytest

from tests.sim.quiet import quiet
from tests.sim.rows import ROWS

PARTS = 8
"""Tests that a row is cut into, so that they run side by side."""
TRACE_LINES = 400


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("number", ROWS, ids=[f"row {n}: {row.sentence}" for n, row in ROWS.items()])
def test_a_sample_of_every_row(number: int, part: int) -> None:
    row = ROWS[number]
    with quiet():
        for run in row.first()[part::PARTS]:
            verdict = row.play(run)
            if verdict.wrong:
                trace = str(verdict.trace).splitlines()
                lines = [*verdict.wrong, f"again: make sim SEED={row.seed(run)}", *trace[:TRACE_LINES]]
                pytest.fail("\n".join(lines), pytrace=False)
