"""Row 8. Without the lock: two to four workers work on one key at once, in interleavings drawn at random.

Every worker stands still before each of its requests and commands, and after it; which goes on is drawn. The workers
are threads of which one runs at a time: the holder of the baton.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.simulation.fault import on_scenarios, spread
from tests.simulation.oracles import Allowance, Whole
from tests.simulation.points import Fault, Step
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.world import SimWorld
from tests.support.memory_store import MemoryStore
from tests.support.memory_work_queue import MemoryWorkQueue
from tjworker.base import JobKey
from tjworker.store.work_queue import Claim, FinishResult, NextPass, Written

INTERLEAVINGS = 10_000
WORKERS = 4
NEWS_CHANCE = 0.15
"""How often the cluster and the watcher move between two steps of the workers."""


class Unlocked(MemoryWorkQueue):
    """A worker that asks for a key has it, with those of all other jobs, and no lease ever lapses. Any release says
    what comes next."""

    def _acquire(self, named: JobKey, owner: str, ttl_seconds: float, most: int) -> list[Claim]:
        others = sorted(key for key, job in self._redis.tables.jobs.items() if key != named and not job.finished)
        keys = [named, *others][:most]
        for key in keys:
            self._redis.leave_line(key)
            self._redis.tables.dirty.pop(key, None)
        return [self._lease(key, owner, ttl_seconds) for key in keys]

    def renew(self, claim: Claim, ttl_seconds: float) -> None:
        """There is nothing to keep."""

    def raise_min_observed(self, claim: Claim, written: Written) -> None:
        self._redis.raise_min_observed(claim.key, written)

    def _finish(self, claim: Claim, written: Written, next_pass: NextPass) -> FinishResult:
        lock = self._redis.tables.locks.get(claim.key)
        if lock is None:
            self._lease(claim.key, claim.owner, 3600)
            lock = self._redis.tables.locks[claim.key]
        mine = replace(claim, token=lock.token)
        return super()._finish(mine, written, next_pass)


class Routine:
    """A call in a thread of its own that goes on only when told to, up to where it stands still next."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._mine = threading.Semaphore(0)
        self._theirs = threading.Semaphore(0)
        self._error: BaseException | None = None
        self.over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        self._mine.release()
        self._theirs.acquire()
        if self._error is not None:
            raise self._error

    def stand_still(self) -> None:
        """Called from within."""
        self._theirs.release()
        self._mine.acquire()

    def _run(self) -> None:
        self._mine.acquire()
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001  raised again by the thread that resumed it
            self._error = error
        self.over = True
        self._theirs.release()


class Together(SimWorld):
    """Takes each task to several workers at once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(workers=WORKERS, **options)
        self.running: Routine | None = None

    def make_store(self) -> MemoryStore:
        return MemoryStore(clock=self.clock, broker=self.messages, make_queue=Unlocked)

    def work(self) -> None:
        assert isinstance(self.fault, Interleaved)
        draw = self.fault.draw
        while due := [task for task in self.tasks if task[0] <= self.clock()]:
            self.tasks.remove(due[0])
            crowd = draw.sample(range(WORKERS), draw.randint(2, WORKERS))
            routines = [Routine(lambda number=number: self.task(number, due[0][1])) for number in crowd]  # type: ignore[misc]
            while alive := [routine for routine in routines if not routine.over]:
                self.running = draw.choice(alive)
                self.running.go_on()
                self.running = None
                if draw.random() < NEWS_CHANCE:
                    self.cluster.run_until_idle()
                    self.watch()


class Interleaved(Fault):
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def before(self, world: SimWorld, step: Step) -> None:
        assert isinstance(world, Together)
        if world.running is not None and step.actor.startswith("worker"):
            world.running.stand_still()

    after = before


def points(undisturbed: Whole) -> Sequence[str]:
    return [str(number) for number in range(INTERLEAVINGS // len(SCENARIOS) + 1)]


def fault(point: str) -> Interleaved:
    return Interleaved(int(point))


ROW = on_scenarios(
    8,
    "without the lock, workers interleave on one key",
    points,
    fault,
    allowed=Allowance(15),
    first=spread(1),
    world=Together,
)
