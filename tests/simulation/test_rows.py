"""The first tier: a sample of every row, half of it in `make test` and half in `make test-long`. `make sim-all` has the
whole figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from tests.simulation.faults import ROWS
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import SCENARIOS

TRACE_LINES = 400
EVERY_SECOND_RUN = {1, 2, 3, 4, 5, 7, 9, 10, 15}
"""Rows with two runs or more in each group: each tier plays half of a group."""
EVERY_SECOND_GROUP = {6, 8, 16, 17, 28}
"""Rows with one run in some groups. Those in neither set are short, and `make test` plays all of them."""
OF_GUESTS = {(1, "mpi-restarts"), (1, "ai-pod-gang"), (5, "pytorch-suspended"), (7, "kubedl-tf-restarts")}
"""What `make test` plays of the scenarios that it leaves to `make test-long`, each second run."""


def samples() -> Iterator[ParameterSet]:
    """(row, group, first run, step), so that each tier has early and late faults of every kind of scenario."""
    for row in ROWS.values():
        for place, group in enumerate(row.first):
            turn, together = (row.number + place) % 2, pytest.mark.xdist_group(group)
            name = f"row {row.number}: {row.sentence}: {group}"
            left_to_long = group in SCENARIOS and SCENARIOS[group].long
            if left_to_long and (row.number, group) not in OF_GUESTS:
                yield pytest.param(row.number, group, 0, 1, id=name, marks=[together, pytest.mark.long])
            elif row.number in EVERY_SECOND_RUN:
                yield pytest.param(row.number, group, turn, 2, id=name, marks=together)
                others = f"{name}, the others"
                yield pytest.param(row.number, group, 1 - turn, 2, id=others, marks=[together, pytest.mark.long])
            else:
                late = row.number in EVERY_SECOND_GROUP and turn == 1
                marks = [together, pytest.mark.long] if late else [together]
                yield pytest.param(row.number, group, 0, 1, id=name, marks=marks)


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
