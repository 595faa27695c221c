"""Row 9. Redis is wiped, comes back with an older state, fails over and loses its last writes (at once, or after it was
away), is read-only, is out of memory, is away, or is away twice: at every command of a scenario. No pod is made or
deleted by it, and the scenario is over within 60 s of the end of the trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.simulation.fault import on_scenarios, spread
from tests.simulation.oracles import Allowance, Whole
from tests.simulation.points import Fault, Step
from tests.simulation.world import SimWorld
from tjworker.base import JobKey, Transient
from tjworker.reconcile.first_status import YOUNG_SECONDS

TROUBLE_SECONDS = 25.0
READS = ("view", "nodes", "known_keys", "known_children", "known_nodes", "stats", "ping", "history")


class Wiped(Fault):
    """With the tasks, which are in the same Redis."""

    def __init__(self, number: int) -> None:
        self._number = number

    def before(self, world: SimWorld, step: Step) -> None:
        if (step.kind, step.number) == ("redis", self._number):
            world.trace.note(world.clock(), "FAULT", "Redis is empty")
            world.memory.flush()
            world.tasks.clear()


class RolledBack(Fault):
    """At this command Redis is what it was so many commands ago."""

    def __init__(self, number: int, commands: int) -> None:
        self._number = number
        self._since = max(0, number - commands)
        self._then: tuple[Any, list[tuple[float, JobKey]]] = (None, [])

    def before(self, world: SimWorld, step: Step) -> None:
        if step.kind != "redis":
            return
        self.remember(world, step)
        if step.number == self._number:
            self.put_back(world)

    def remember(self, world: SimWorld, step: Step) -> None:
        if step.number == self._since:
            self._then = (world.memory.snapshot(), list(world.tasks))

    def put_back(self, world: SimWorld) -> None:
        world.trace.note(world.clock(), "FAULT", f"Redis is as before command {self._since}")
        self.forgot_a_new_job = world.clock() - world.began_at < YOUNG_SECONDS
        world.memory.restore(self._then[0])
        world.tasks.clear()
        world.tasks.extend(self._then[1])


class Troubled(Fault):
    """From this command on, for a while, Redis answers with an error: to everything, or to what would write."""

    def __init__(self, number: int, what: str, *, reads: bool) -> None:
        self._number = number
        self._what = what
        self._reads = reads
        self._over_at: float | None = None

    def before(self, world: SimWorld, step: Step) -> None:
        if step.kind != "redis":
            return
        if step.number == self._number:
            self._over_at = world.clock() + TROUBLE_SECONDS
            world.trace.note(world.clock(), "FAULT", f"Redis {self._what} for {TROUBLE_SECONDS:.0f} s")
        troubled = self._over_at is not None and world.clock() < self._over_at
        if troubled and not (self._reads and step.what.split()[0] in READS):
            raise Transient(f"Redis {self._what}; trying again", reason="RedisAway")

    def next_due(self, now_seconds: float) -> float | None:
        return self._over_at if self._over_at and self._over_at > now_seconds else None


class AwayTwice(Troubled):
    """Redis goes as a pass ends, from this command on, and once more as soon as a pass has begun since its return. Two
    passes over a job in a row then end without Redis hearing of it."""

    def __init__(self, number: int) -> None:
        super().__init__(number, "cannot be reached", reads=False)
        self._returned = False

    def before(self, world: SimWorld, step: Step) -> None:
        if self._over_at is None and step.kind == "redis" and step.number >= self._number:
            if not step.what.startswith("finish"):
                return
            self._number = step.number
        super().before(world, step)

    def after(self, world: SimWorld, step: Step) -> None:
        over = self._over_at is not None and world.clock() >= self._over_at
        if over and not self._returned and step.what.startswith("acquire_views") and world.memory.queue.stats().running:
            self._returned = True
            self._over_at = world.clock() + TROUBLE_SECONDS
            world.trace.note(world.clock(), "FAULT", f"Redis is away again for {TROUBLE_SECONDS:.0f} s")


class AwayAndOlder(Troubled):
    """Redis is away, and what then answers is a replica that had not got the last commands."""

    def __init__(self, number: int, commands: int) -> None:
        super().__init__(number, "cannot be reached", reads=False)
        self._older = RolledBack(number, commands)
        self._returned = False

    def before(self, world: SimWorld, step: Step) -> None:
        if step.kind == "redis" and not self._returned:
            if self._over_at is None:
                self._older.remember(world, step)
            elif world.clock() >= self._over_at:
                self._returned = True
                self._older.put_back(world)
                self.forgot_a_new_job = self._older.forgot_a_new_job
        super().before(world, step)


WAYS: Mapping[str, Callable[[int], Fault]] = {
    "wiped": Wiped,
    "older": lambda number: RolledBack(number, 25),
    "failed-over": lambda number: RolledBack(number, 3),
    "read-only": lambda number: Troubled(number, "is a read-only replica", reads=True),
    "full": lambda number: Troubled(number, "has no memory left", reads=True),
    "away": lambda number: Troubled(number, "cannot be reached", reads=False),
    "away-twice": AwayTwice,
    "away-and-older": lambda number: AwayAndOlder(number, 3),
}


def points(undisturbed: Whole) -> Sequence[str]:
    return [f"{number}-{way}" for number in range(undisturbed.steps["redis"]) for way in WAYS]


def fault(point: str) -> Fault:
    number, _, way = point.partition("-")
    return WAYS[way](int(number))


def allowed(point: str) -> Allowance:
    """The trouble, if it lasts, and the minute after it."""
    struck = fault(point)
    troubles = isinstance(struck, Troubled) + isinstance(struck, AwayTwice)
    return Allowance(60 + TROUBLE_SECONDS * troubles)


ROW = on_scenarios(
    9,
    "Redis is wiped, older, failed over, read-only, full or away, once or twice",
    points,
    fault,
    allowed=allowed,
    first=spread(2),
)
