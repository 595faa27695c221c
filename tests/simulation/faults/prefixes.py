"""Row 12. Any prefix of a plan is carried out, the worker dies, another reconciles again: the same end. A run is one
arbitrary input (`inputs.py`) with every prefix of its plan, each in a namespace of its own."""

from __future__ import annotations

from tests.simulation.fault import Row, Verdict
from tests.simulation.inputs import make_input
from tests.simulation.prefixes import try_prefixes

PLANS = 5_000


def play(run: str) -> Verdict:
    given = make_input(int(run))
    return Verdict(tuple(try_prefixes(given)), trace=given)


ROW = Row(
    12,
    "any prefix of a plan, then another worker: all prefixes of a plan a run",
    lambda: [str(seed) for seed in range(PLANS)],
    {"plans": lambda: [str(seed) for seed in range(100_000, 100_003)]},
    play,
)
