"""Delayed keys are queued and published when their time has come."""

from __future__ import annotations

from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tests.unit.watcher.projection.objects import KEY
from tests.unit.watcher.writing import Bench, job, settle
from tjworker.base import JobKey


def test_keys_whose_time_has_come_are_published() -> None:
    clock = [1000.0]
    bench = Bench(MemoryStore(clock=lambda: clock[0]))
    bench.put(AITRAININGJOBS, job())
    settle(bench)
    bench.store.queue.add_after(JobKey(KEY), 5)
    bench.writer._now = lambda: clock[0]
    for second, want in ((4.0, []), (6.0, [KEY])):
        clock[0] = 1000.0 + second
        bench.writer.step(0)
        assert bench.published == want
