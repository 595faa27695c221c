"""A process that dies at one of its steps, as by kill -9."""

from __future__ import annotations

from tests.simulation.points import Died, Fault, Kind, Step
from tests.simulation.world import SimWorld


class Crash(Fault):
    """`way`: `before` the step; once it was done and there was `no-reply` yet; or `after` the reply, at the next step
    of that process."""

    def __init__(self, kind: Kind, number: int, way: str) -> None:
        self.kind = kind
        self.number = number
        self.way = way
        self._doomed = ""

    def before(self, world: SimWorld, step: Step) -> None:
        if self._doomed == step.actor or (self.way == "before" and self._is(step)):
            self._doomed = ""
            raise Died

    def after(self, world: SimWorld, step: Step) -> None:
        if not self._is(step):
            return
        if self.way == "no-reply":
            raise Died
        if self.way == "after":
            self._doomed = step.actor

    def _is(self, step: Step) -> bool:
        return step.kind == self.kind and step.number == self.number
