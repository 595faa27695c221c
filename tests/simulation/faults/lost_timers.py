"""Row 29. A timer is forgotten: what a pass has put off for later never comes, as when a Redis that fails over has not
copied it yet. Nothing tells of that, and nothing else need happen to the job. The full resync finds it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.fault import on_scenarios, spread
from tests.simulation.oracles import Allowance, Whole
from tests.simulation.points import Fault, Step
from tests.simulation.world import SimWorld
from tjworker.settings import Settings

FULL_RESYNC_SECONDS = Settings().full_resync_seconds
ALLOWED_SECONDS = FULL_RESYNC_SECONDS + 35.0
"""The resync that is the first when the time is over looks at everything; it comes each 30 s."""
FIRST = ("ai-pod-times-out", "ai-pod-goes-after-its-end", "ai-pod-loses-node", "edl-job-restarts")
"""What these wait for, no event brings."""
_TIMER = re.compile(r"\bfinish \S+ .*\blatest_seconds=\d")


class Forgotten(Fault):
    late_seconds = ALLOWED_SECONDS

    def __init__(self, number: int) -> None:
        self._left = number

    def after(self, world: SimWorld, step: Step) -> None:
        if step.kind != "redis" or not _TIMER.search(step.what):
            return
        if self._left == 0:
            world.trace.note(world.clock(), "FAULT", "what was to come later is forgotten")
            world.memory.forget_timers()
        self._left -= 1


def points(undisturbed: Whole) -> Sequence[str]:
    return [str(number) for number in range(len(_TIMER.findall(str(undisturbed.first.trace))))]


def fault(point: str) -> Forgotten:
    return Forgotten(int(point))


_EVERYWHERE = on_scenarios(
    29,
    "a timer is forgotten, and the full resync finds what it was for",
    points,
    fault,
    allowed=Allowance(ALLOWED_SECONDS),
    first=spread(4),
)
ROW = replace(_EVERYWHERE, first={name: _EVERYWHERE.first[name] for name in FIRST})
