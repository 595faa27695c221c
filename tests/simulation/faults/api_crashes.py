"""Row 1. A worker dies at every write to the API server: before it, done but without a reply, after the reply."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.crash import Crash
from tests.simulation.fault import on_scenarios
from tests.simulation.oracles import LOST_HOLDER_SECONDS, Allowance, Whole

WAYS = ("before", "no-reply", "after")


def points(undisturbed: Whole) -> Sequence[str]:
    return [f"{number}-{way}" for number in range(undisturbed.steps["write"]) for way in WAYS]


def crash(point: str) -> Crash:
    number, _, way = point.partition("-")
    return Crash("write", int(number), way)


def every_write(points: Sequence[str]) -> Sequence[str]:
    """In turn before, after and without a reply."""
    return [points[n * len(WAYS) + n % len(WAYS)] for n in range(len(points) // len(WAYS))]


ROW = on_scenarios(
    1,
    "a worker dies at every write to the API server",
    points,
    crash,
    allowed=Allowance(LOST_HOLDER_SECONDS),
    first=every_write,
)
