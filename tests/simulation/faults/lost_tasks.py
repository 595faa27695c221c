"""Row 6. Each task dropped, doubled, swapped with the next, or late. The scenario is over at most 60 s later than
undisturbed.

Two jobs of the same spec live side by side, so that there is something to swap with.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.fault import on_scenarios, spread
from tests.simulation.oracles import Allowance, Whole
from tests.simulation.points import Fault, Step
from tests.simulation.world import SimWorld
from tjworker.base import JobKey

WAYS = ("dropped", "doubled", "swapped", "late")
LATE_SECONDS = 45.0


class Fate(Fault):
    def __init__(self, number: int, way: str) -> None:
        self._number = number
        self._way = way

    def deliver(self, world: SimWorld, step: Step) -> tuple[float, ...]:
        if step.number == self._number:
            world.trace.note(world.clock(), "FAULT", f"task {step.number} is {self._way}")
            return {"dropped": (), "doubled": (0.0, 0.0), "swapped": (LATE_SECONDS,), "late": (LATE_SECONDS,)}[
                self._way
            ]
        if step.number == self._number + 1 and self._way == "swapped":
            held = next(((at, key) for at, key in world.tasks if at > world.clock()), None)
            if held is not None:
                world.tasks.remove(held)
                world.tasks.append((world.clock(), JobKey(step.what)))
                world.tasks.append((world.clock(), held[1]))
                return ()
        return (0.0,)


def points(undisturbed: Whole) -> Sequence[str]:
    return [f"{number}-{way}" for number in range(undisturbed.steps["task"]) for way in WAYS]


def fault(point: str) -> Fate:
    number, _, way = point.partition("-")
    return Fate(int(number), way)


ROW = on_scenarios(
    6,
    "a task is dropped, doubled, swapped or late",
    points,
    fault,
    allowed=Allowance(60),
    first=spread(1),
    companion=True,
)
