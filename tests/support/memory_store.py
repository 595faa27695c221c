"""The Store in memory: for tests and simulations."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import replace

from tests.support.memory_maintenance import MemoryMaintenance
from tests.support.memory_projection import MemoryProjection
from tests.support.memory_redis import MemoryRedis, Tables
from tests.support.memory_work_queue import MemoryWorkQueue


class MemoryStore:
    """`clock` gives seconds (any origin), `broker` the number of messages in Celery's queue."""

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        *,
        broker: Callable[[], int] = lambda: 0,
        make_queue: Callable[[MemoryRedis], MemoryWorkQueue] = MemoryWorkQueue,
    ) -> None:
        self._redis = MemoryRedis(clock, broker)
        self.projection = MemoryProjection(self._redis)
        self.queue = make_queue(self._redis)
        self.maintenance = MemoryMaintenance(self._redis)

    def flush(self) -> None:
        """FLUSHALL."""
        self._replace(Tables())

    def snapshot(self) -> Tables:
        with self._redis.mutex:
            return copy.deepcopy(self._redis.tables)

    def restore(self, snapshot: Tables) -> None:
        """Redis comes back with an older state, from an old file or a replica that had not got the last writes."""
        self._replace(copy.deepcopy(snapshot))

    def forget_timers(self) -> None:
        """A replica takes over that had not got them yet."""
        with self._redis.mutex:
            self._redis.tables.delayed.clear()

    def next_due(self) -> float | None:
        """When the next key falls due, by `clock`. For who moves the clock."""
        return min(self._redis.tables.delayed.values(), default=None)

    def _replace(self, tables: Tables) -> None:
        with self._redis.mutex:
            # In Redis the clock has moved on by the next token; a test's clock may stand still.
            self._redis.tables = replace(tables, fence=self._redis.tables.fence)
