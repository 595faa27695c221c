"""A sample of every row: each eighth scenario of a row in `make test`; in `make test-long` every other one, and all of
rows 1 and 7, which disturb each write of a life. `make sim-all` has the whole figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from tests.simulation.faults import ROWS
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import SCENARIOS

TRACE_LINES = 400
ONE_RUN_IN_A_GROUP = {6, 8, 16, 17, 28}
"""Of the groups of the other rows, which have two runs or more, each second run is played: `make sim-all` has all."""
EVERY_WRITE = {1, 7}
"""Rows that disturb each write of a life once, by the one row or by the other: every life is played, each second run of
it."""
SHORT = {11, 12, 13, 14, 18, 29}
"""Rows of which `make test` plays every group."""
IN_MAKE_TEST = {
    *((1, "ai-pod-succeeds"), (1, "mpi-restarts"), (1, "ai-pod-gang"), (5, "pytorch-suspended")),
    *((7, "ai-pod-restarts"), (7, "kubedl-tf-restarts")),
}
"""Beyond each eighth: one of each way in which pods are kept, and those that a seeded bug names."""


def samples() -> Iterator[ParameterSet]:
    """(row, group, first run, step), so that each tier has early and late faults of every kind of scenario."""
    for row in ROWS.values():
        for place, group in enumerate(row.first):
            marks = [pytest.mark.xdist_group(group)]
            left_to_long = group in SCENARIOS and SCENARIOS[group].long
            eighth = (place - row.number) % min(8, len(row.first)) == 0 and not left_to_long
            quick = eighth or row.number in SHORT or (row.number, group) in IN_MAKE_TEST
            every = row.number in SHORT | ONE_RUN_IN_A_GROUP
            step = 1 if every else 2
            begin = 0 if every else (row.number + place) % 2
            name = f"row {row.number}: {row.sentence}: {group}"
            left = [*marks, pytest.mark.long]
            if not quick and row.number not in EVERY_WRITE and (place + row.number) % 2:
                continue  # the next row plays it
            yield pytest.param(row.number, group, begin, step, id=name, marks=marks if quick else left)


@pytest.mark.parametrize(("number", "group", "begin", "step"), list(samples()))
def test_a_sample_of_every_row(number: int, group: str, begin: int, step: int) -> None:
    row = ROWS[number]
    with quiet():
        runs = row.first[group]()[begin::step]
        assert runs, "nothing is played"
        for run in runs:
            verdict = row.play(run)
            if verdict.wrong:
                trace = str(verdict.trace).splitlines()
                lines = [*verdict.wrong, f"again: make sim SEED={row.seed(run)}", *trace[:TRACE_LINES]]
                pytest.fail("\n".join(lines), pytrace=False)
