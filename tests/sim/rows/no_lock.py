"""Row 8. Without the lock: two to four workers work on one key at once, in interleavings drawn at random.

Every worker stands still before each of its requests and commands, and after it; which goes on is drawn. The workers are
threads of which one runs at a time: whoever holds the baton.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.sim.oracles import Whole
from tests.sim.points import Fault, Step
from tests.sim.row import on_scenarios, spread
from tests.sim.scenarios import SCENARIOS
from tests.sim.world import SimWorld
from tjworker.base import JobKey
from tjworker.store.memory import MemoryStore
from tjworker.store.port import NOTHING_WRITTEN, FinishResult, Hold, Written

INTERLEAVINGS = 10_000
WORKERS = 4
NEWS_CHANCE = 0.15
"""How often the cluster and the watcher move between two steps of the workers."""


class Unlocked(MemoryStore):
    """Whoever asks for a key has it, and no lease ever lapses. Letting go says what comes next, whoever says it."""

    def acquire(self, key: JobKey, owner: str, ttl_seconds: float) -> Hold | None:
        self._data.dirty.setdefault(key, self._clock())
        self._data.locks.pop(key, None)
        return super().acquire(key, owner, ttl_seconds)

    def renew(self, hold: Hold, ttl_seconds: float) -> None:
        """There is nothing to keep."""

    def raise_floor(self, hold: Hold, written: Written) -> None:
        self._raise(hold.key, written)

    def finish(
        self,
        hold: Hold,
        written: Written = NOTHING_WRITTEN,
        *,
        again: bool = False,
        after_seconds: float | None = None,
        failed: bool = False,
    ) -> FinishResult:
        lock = self._data.locks.get(hold.key)
        if lock is None:
            self._data.dirty.setdefault(hold.key, self._clock())
            lock_of = super().acquire(hold.key, hold.owner, 3600)
            assert lock_of is not None
            lock = self._data.locks[hold.key]
        mine = replace(hold, token=lock.token)
        return super().finish(mine, written, again=again, after_seconds=after_seconds, failed=failed)


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
        except BaseException as error:  # noqa: BLE001  raised again by whoever told it to go on
            self._error = error
        self.over = True
        self._theirs.release()


class Together(SimWorld):
    """Takes each task to several workers at once."""

    def __init__(self, *, seed: int, fault: Fault | None = None, nodes: int = 2, autoscaled: bool = False) -> None:
        super().__init__(seed=seed, fault=fault, nodes=nodes, workers=WORKERS, autoscaled=autoscaled)
        self.running: Routine | None = None

    def make_store(self) -> MemoryStore:
        return Unlocked(clock=self.clock)

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


ROW = on_scenarios(8, "without the lock, workers interleave on one key", points, fault, first=spread(1), world=Together)
