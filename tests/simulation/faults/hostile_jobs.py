"""Row 18. Hostile names, labels, annotations, environment, templates and statuses: no request outside the job's
namespace, no name or variable of the operator's overridden, no exception, no traceback in a status. A run is a hundred
jobs (`hostile.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.fault import Row, Verdict
from tests.simulation.hostile import harm, make_hostile
from tests.simulation.hostile_guests import make_hostile_guest

INPUTS, A_RUN = 10_000, 100
GUESTS = "guests "
"""Begins the name of a run of jobs of other operators' kinds, and of annotations that hold JSON."""
FOUND: Mapping[str, int] = {
    "a null list of init containers was iterated over": 2693,
    "a status that is no object, and a phase that is a list, stopped the projection of the job": 1290,
    "the TTL of a finished job whose runPolicy is a text": 40,
    "one restart above the greatest number of JSON": 472,
    "a number of replicas in the status that no JSON can hold": 2731,
}
FOUND_OF_GUESTS: Mapping[str, int] = {"another operator's conditions that are a number": 500_011}


def _guests(first: int, count: int) -> Verdict:
    wrong = []
    for seed in (*range(first, first + count), *FOUND_OF_GUESTS.values()):
        resource, raw = make_hostile_guest(seed)
        try:
            wrong += [f"guest {seed}: {what}" for what in harm(raw, resource)]
        except Exception as error:  # noqa: BLE001  an exception is what this row looks for
            wrong.append(f"guest {seed}: {type(error).__name__}: {error}")
    return Verdict(tuple(wrong))


def play(run: str) -> Verdict:
    first, count = map(int, run.removeprefix(GUESTS).split("-"))
    if run.startswith(GUESTS):
        return _guests(first, count)
    wrong = []
    for seed in (*range(first, first + count), *FOUND.values()):
        try:
            wrong += [f"job {seed}: {what}" for what in harm(make_hostile(seed))]
        except Exception as error:  # noqa: BLE001  an exception is what this row looks for
            wrong.append(f"job {seed}: {type(error).__name__}: {error}")
    return Verdict(
        tuple(wrong), trace="\n".join(str(make_hostile(int(line.split()[1].rstrip(":")))) for line in wrong[:3])
    )


ROW = Row(
    18,
    "hostile jobs: nothing outside the namespace, nothing overridden, no exception; 100 jobs a run",
    lambda: [f"{kind}{first}-{A_RUN}" for kind in ("", GUESTS) for first in range(0, INPUTS, A_RUN)],
    {"jobs": lambda: ["500000-100"], "guests": lambda: [f"{GUESTS}500000-100"]},
    play,
)
