"""Row 7. The holder of a key stands still past its lease, at every write: another worker takes the key and finishes,
then the first one wakes and goes on with the write that it was about to make, or with what comes after it.

No update is lost. A create that was on its way when its worker fell asleep cannot be called back: it is the one write
that may be made for nothing, with a name that is free again by then, and is cleaned up: at the latest by the collector
of orphans, which looks every ten minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.fault import on_scenarios
from tests.simulation.faults.api_crashes import turn
from tests.simulation.oracles import Allowance, Whole
from tests.simulation.points import Fault, Step
from tests.simulation.world import SimWorld

WAYS = ("before", "after")
PAUSE_SECONDS = 95.0
"""The lease (30 s), the resync that finds it lapsed (30 s), the pass of another worker, and its echo."""
COLLECTED_SECONDS = 600.0 + 60.0
"""TJ_COLLECT_ORPHANS_SECONDS, and the age that an orphan must have."""


class Pause(Fault):
    def __init__(self, number: int, way: str) -> None:
        self._number = number
        self._way = way

    def before(self, world: SimWorld, step: Step) -> None:
        self._pause(world, step, "before")

    def after(self, world: SimWorld, step: Step) -> None:
        self._pause(world, step, "after")

    def _pause(self, world: SimWorld, step: Step, way: str) -> None:
        if (step.kind, step.number, way) == ("write", self._number, self._way):
            world.others_go_on(step.actor, PAUSE_SECONDS)
            world.trace.note(world.clock(), step.actor, "wakes up")


def points(undisturbed: Whole) -> Sequence[str]:
    return [f"{number}-{way}" for number in range(undisturbed.steps["write"]) for way in WAYS]


def in_turn(points: Sequence[str]) -> Sequence[str]:
    """What the sleeper sends when it wakes up: each write must prove by itself that it is still wanted. The writes that
    row 1 leaves to this one."""
    writes = len(points) // len(WAYS)
    return [f"{number}-before" for number in range(writes) if turn(number, writes) == "before"]


def fault(point: str) -> Pause:
    number, _, way = point.partition("-")
    return Pause(int(number), way)


ROW = on_scenarios(
    7,
    "the holder of a key stands still past its lease",
    points,
    fault,
    allowed=Allowance(
        PAUSE_SECONDS + 5, made_for_nothing=1, until_collected_seconds=PAUSE_SECONDS + COLLECTED_SECONDS, on_the_way=1
    ),
    first=in_turn,
)
