"""Row 4. A pass decides on an older view: each pass of a scenario is given each view that an earlier one has seen.

So a watch lags: what it has not shown yet comes a second later, as news. What the operator itself has written for a new
job is remembered by the store, as the first pods have no status for their proof (ADR 30).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.fault import on_scenarios, spread
from tests.simulation.oracles import Allowance, Whole
from tests.simulation.points import Fault
from tests.simulation.world import SimWorld
from tjworker.base import JobKey
from tjworker.reconcile.first_status import YOUNG_SECONDS
from tjworker.store.projection import View

LAG_SECONDS = 1.0


class Stale(Fault):
    """Pass `number` sees what pass `earlier` saw, not known to be old: `min_observed` is that of the old view
    too."""

    def __init__(self, number: int, earlier: int) -> None:
        self._number = number
        self._earlier = earlier
        self._views: list[View] = []

    def sees(self, world: SimWorld, key: JobKey, view: View) -> View:
        self._views.append(view)
        if len(self._views) != self._number + 1:
            return view
        world.trace.note(world.clock(), "FAULT", f"pass {self._number} sees the view of pass {self._earlier}")
        world.memory.queue.add_after(key, LAG_SECONDS)
        old = self._views[self._earlier]
        new_job = not old.min_observed and world.clock() - world.began_at < YOUNG_SECONDS
        return replace(old, min_observed=view.min_observed) if new_job else old


def points(undisturbed: Whole) -> Sequence[str]:
    passes = undisturbed.passes
    return [f"{number}-sees-{earlier}" for number in range(passes) for earlier in range(number)]


def fault(point: str) -> Stale:
    number, _, earlier = point.partition("-sees-")
    return Stale(int(number), int(earlier))


ROW = on_scenarios(
    4, "a pass decides on an older view", points, fault, allowed=Allowance(LAG_SECONDS + 4), first=spread(2)
)
