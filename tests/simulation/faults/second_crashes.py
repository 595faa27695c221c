"""Row 3. A second crash while the first is being recovered from: pairs drawn at random, each from its own number."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.simulation.crash import Crash
from tests.simulation.fault import on_scenarios, spread
from tests.simulation.oracles import LOST_HOLDER_SECONDS, Allowance, Whole
from tests.simulation.points import Died, Fault, Kind, Step
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.world import SimWorld

PAIRS = 5_000
KINDS: tuple[Kind, ...] = ("write", "redis")


class Twice(Fault):
    def __init__(self, draw: random.Random, most: dict[Kind, int]) -> None:
        kind = draw.choice(KINDS)
        self._first = Crash(kind, draw.randrange(most[kind]), draw.choice(("before", "no-reply")))
        self._left = draw.randint(1, 60)
        """Steps from the first death to the second."""
        self._died = False

    def before(self, world: SimWorld, step: Step) -> None:
        if not self._died:
            self._try(lambda: self._first.before(world, step))
        elif step.kind in KINDS:
            self._left -= 1
            if self._left == 0:
                raise Died

    def after(self, world: SimWorld, step: Step) -> None:
        if not self._died:
            self._try(lambda: self._first.after(world, step))

    def _try(self, crash: Callable[[], None]) -> None:
        try:
            crash()
        except Died:
            self._died = True
            raise


def points(undisturbed: Whole) -> Sequence[str]:
    steps = undisturbed.steps
    return [f"{number}-{steps['write']}w{steps['redis']}r" for number in range(PAIRS // len(SCENARIOS) + 1)]


def fault(point: str) -> Twice:
    number, _, most = point.partition("-")
    writes, _, commands = most.removesuffix("r").partition("w")
    return Twice(random.Random(int(number)), {"write": int(writes), "redis": int(commands)})


ROW = on_scenarios(
    3,
    "a second crash while the first is recovered from",
    points,
    fault,
    allowed=Allowance(2 * LOST_HOLDER_SECONDS),
    first=spread(2),
)
