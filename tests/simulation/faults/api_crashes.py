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


def turn(number: int, writes: int) -> str:
    """How `make test` disturbs a write of a life with so many: each once, before it by row 7 (whose sleeper's key
    another worker takes, as it takes a dead one's), else by this row. By the number of writes, so that two lives that
    begin alike are disturbed in different ways."""
    return WAYS[(number + writes) % len(WAYS)]


def in_turn(points: Sequence[str]) -> Sequence[str]:
    writes = len(points) // len(WAYS)
    ways = [(number, turn(number, writes)) for number in range(writes)]
    return [f"{number}-{way}" for number, way in ways if way != "before"]


ROW = on_scenarios(
    1,
    "a worker dies at every write to the API server",
    points,
    crash,
    allowed=Allowance(LOST_HOLDER_SECONDS),
    first=in_turn,
)
