"""Row 5. Events of a watch that never arrive: each one, each adjacent pair, and all of twenty seconds.

A watch never leaves one out in silence. It breaks off, and when it comes back its history is gone (410): what was
missed shows, merged, as the difference of the next list.

A resource is listed at most once in 30 s, or a tenth later; and a pass that waits for the echo of its own write may be
asleep for 15 s when it comes. So two events that break off two watches one after the other, of one resource, cost 81 s
at most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.simulation.fault import on_scenarios, spread
from tests.simulation.oracles import Allowance, Whole
from tests.simulation.points import Fault, Step
from tests.simulation.world import SimWorld
from tjworker.api.kinds import served
from tjworker.base import GroupResource
from tjworker.kube.resources import watched

WAYS = {"one": (1, 0.0), "two": (2, 0.0), "20s": (1, 20.0)}
"""How many events in a row, and how long the watch stays away."""


def _watched_as(world: SimWorld, kind: str) -> GroupResource:
    """Two operators may call a kind alike; a world has one of them."""
    rows = watched(served(world.settings.kind_list), world.settings.gang_scheduler)
    return next(row.name for row in rows if row.kind == kind)


class Lost(Fault):
    def __init__(self, first: int, count: int, seconds: float) -> None:
        self._lost = range(first, first + count)
        self._seconds = seconds

    def arrives(self, world: SimWorld, step: Step) -> bool:
        resource = _watched_as(world, step.what.split()[1])
        if step.number in self._lost:
            world.trace.note(world.clock(), "FAULT", f"event {step.number} is lost, the watch of {resource} breaks off")
            world.lose(self._seconds, resource)
        # What stands behind it in the same read of a watch that has broken off is lost too.
        return resource not in world.expired


def points(undisturbed: Whole) -> Sequence[str]:
    return [f"{number}-{way}" for number in range(undisturbed.steps["event"]) for way in WAYS]


def fault(point: str) -> Lost:
    number, _, way = point.partition("-")
    return Lost(int(number), *WAYS[way])


UNSEEN = re.compile(r"\.failures(#: \d+|\[\d+\]\.\w+: 'nothing'), undisturbed ")
"""A pod that failed beside another, and that went with it before its failure was seen, is not listed."""
ROW = on_scenarios(
    5, "events of a watch never arrive", points, fault, allowed=Allowance(2 * 33 + 15, unlike=UNSEEN), first=spread(2)
)
