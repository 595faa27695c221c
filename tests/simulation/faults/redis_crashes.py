"""Row 2. Watcher, worker or beat dies at every command to Redis: before it, or done but without a reply."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.crash import Crash
from tests.simulation.fault import on_scenarios, spread
from tests.simulation.oracles import LOST_HOLDER_SECONDS, Allowance, Whole

WAYS = ("before", "no-reply")


def points(undisturbed: Whole) -> Sequence[str]:
    return [f"{number}-{way}" for number in range(undisturbed.steps["redis"]) for way in WAYS]


def crash(point: str) -> Crash:
    number, _, way = point.partition("-")
    return Crash("redis", int(number), way)


ROW = on_scenarios(
    2,
    "a process dies at every command to Redis",
    points,
    crash,
    allowed=Allowance(LOST_HOLDER_SECONDS),
    first=spread(2),
)
