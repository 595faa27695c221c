"""Which keys a resync publishes, and how often."""

from __future__ import annotations

from collections.abc import Iterable

from localcluster.driver import VirtualClock
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tests.support.queueing import acquire_one, finish_one
from tjworker.base import JobKey, Transient
from tjworker.controllers.resync import Resync
from tjworker.settings import Settings
from tjworker.store.projection import Change

KEYS = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/{name}") for name in ("lost", "idle")]


class Queue:
    def __init__(self) -> None:
        self.published: list[JobKey] = []
        self.away = False

    def publish(self, keys: Iterable[JobKey]) -> int:
        if self.away:
            raise Transient("Redis is away")
        new = list(keys)
        self.published += new
        return len(new)


class Room:
    """Two unfinished jobs; the task of one was lost."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = MemoryStore(clock=self.clock)
        self.queue = Queue()
        settings = Settings(resync_seconds=30, full_resync_seconds=600)
        self.resync = Resync(self.store, self.queue, settings)
        self.store.projection.lead(1)
        for key in KEYS:
            self.store.projection.apply(1, [Change(key, AITRAININGJOBS, key.rpartition("/")[2], 1, b"{}", is_job=True)])
            claim = acquire_one(self.store.queue, key, "worker", 30)
            assert claim is not None
            finish_one(self.store.queue, claim)
        self.store.maintenance.once("full-resync", 600)
        self.store.queue.add([KEYS[0]])
        self.clock.now_seconds += 31


def test_a_key_whose_task_was_lost_is_published_again() -> None:
    room = Room()
    assert room.resync.run() == "1 published"
    assert room.queue.published == [KEYS[0]]


def test_the_full_resync_publishes_every_unfinished_job() -> None:
    room = Room()
    room.clock.now_seconds += 600
    assert room.resync.run() == "2 published, everything"
    assert sorted(room.queue.published) == sorted(KEYS)


def test_of_two_beats_one_resyncs_in_a_period() -> None:
    room = Room()
    room.resync.run()
    assert room.resync.run() == "another beat was first"
    room.clock.now_seconds += 25
    assert room.resync.run().endswith("published")
