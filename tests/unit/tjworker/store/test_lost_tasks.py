"""A broker that loses messages under a flow of any speed: two resyncs after the last loss each key in line has a task
again, and never were there many more."""

from __future__ import annotations

import random

import pytest

from tests.support.memory_redis import tasks_for
from tests.support.memory_store import MemoryStore
from tests.support.seeds import the_seed
from tjworker.base import KEYS_PER_TASK, JobKey
from tjworker.store.work_queue import ON_NEWS, AtOnce, PassEnding

RESYNC_SECONDS = 30


class Flow:
    """Keys that come, tasks that are served or lost, and a resync each period."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = 0.0
        self.messages = self.lost = self.resent = 0
        self.store = MemoryStore(lambda: self.now, broker=lambda: self.messages)
        self.gap_seconds = self.draw.uniform(0.2, 10)
        self.next_resync = self.draw.uniform(0, RESYNC_SECONDS)

    def moment(self, *, loses: bool) -> None:
        """A key comes; some tasks are lost or served."""
        self.now += self.draw.uniform(0, 2 * self.gap_seconds)
        number = self.draw.randrange(40)
        key = JobKey(f"aitrainingjobs.elasticdeeplearning.ai/n{number % 4}/k{number}")
        self.messages += tasks_for(len(self.store.queue.add([key])))
        while self.messages and self.draw.random() < 0.7:
            self.messages -= 1
            if loses and self.draw.random() < 0.2:
                self.lost += 1
                continue
            taken = self.store.queue.acquire_views(key, "worker", 30, KEYS_PER_TASK)
            endings = [
                PassEnding(claim, next_pass=AtOnce() if self.draw.random() < 0.1 else ON_NEWS)
                for claim, _ in taken.views
            ]
            again = [done.publish for done in self.store.queue.finish_all(endings)]
            self.messages += tasks_for(len(taken.publish)) + tasks_for(sum(again))
        while self.now >= self.next_resync:
            self.next_resync += RESYNC_SECONDS
            sent = self.store.queue.resync(lost_after_seconds=RESYNC_SECONDS, everything=False)
            self.messages += tasks_for(len(sent))
            self.resent += tasks_for(len(sent))

    def missing(self) -> int:
        return tasks_for(len(self.store._redis.tables.line)) - self.messages


@pytest.mark.parametrize("offset", range(30))
def test_two_resyncs_after_the_last_loss_no_task_is_missing(offset: int) -> None:
    seed = the_seed() + offset
    flow = Flow(seed)
    for _ in range(200):
        flow.moment(loses=True)
    assert flow.lost, f"seed {seed}"
    calm = flow.next_resync + 1.5 * RESYNC_SECONDS
    while flow.now < calm:
        flow.moment(loses=False)
    assert flow.missing() <= 0, f"seed {seed}: {flow.missing()} tasks are missing"
    assert flow.resent <= flow.lost, f"seed {seed}: {flow.resent} were sent again for {flow.lost} that were lost"
