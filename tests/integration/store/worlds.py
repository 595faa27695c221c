"""One store in a world whose time a test moves: in memory, and on a real Redis. Its records are sealed, as watcher and
workers have it.

`advance` makes time pass without waiting. On Redis everything that the clock is compared with moves back instead:
scores of the queues, and what is left to live of each key.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import redis

from tests.conftest import RealRedis
from tests.support.memory_store import MemoryStore
from tjworker.base import JobKey
from tjworker.store.connect import open_store
from tjworker.store.keys import BY_NAME
from tjworker.store.port import Store
from tjworker.store.seal import Seal
from tjworker.store.sealed_store import SealedStore, sealed

SEAL = Seal(["c" * 32], "tj")


class World(Protocol):
    store: SealedStore
    bare: Store
    """The store beneath it, whose records are what stands there. As it is for somebody without a key."""
    real: bool

    def advance(self, seconds: float) -> None: ...
    def flush(self) -> None: ...
    def save(self) -> None: ...
    def go_back(self) -> None:
        """To what was saved last, and nothing else."""
        ...

    def messages(self, count: int) -> None:
        """From now on Celery's queue has so many."""
        ...

    def queued_by_an_earlier_version(self, key: JobKey) -> None:
        """Which knows no line."""
        ...

    def taken_by_a_stranger(self, name: str, seconds: float | None) -> None:
        """A task's key that ends in so long a time, or never."""
        ...

    def another(self) -> Store:
        """A second process: another bare store on the same data."""
        ...


class MemoryWorld:
    real = False

    def __init__(self) -> None:
        self.now_seconds = 1_000_000.0
        self.messages_waiting = 0
        self._memory = MemoryStore(lambda: self.now_seconds, broker=lambda: self.messages_waiting)
        self.bare: Store = self._memory
        self.store = sealed(self.bare, SEAL)
        self._saved = self._memory.snapshot()

    def advance(self, seconds: float) -> None:
        self.now_seconds += seconds

    def flush(self) -> None:
        self._memory.flush()
        self.messages_waiting = 0

    def save(self) -> None:
        self._saved = self._memory.snapshot()

    def go_back(self) -> None:
        self._memory.restore(self._saved)

    def messages(self, count: int) -> None:
        self.messages_waiting = count

    def queued_by_an_earlier_version(self, key: JobKey) -> None:
        self._memory._redis.tables.dirty[key] = self.now_seconds

    def taken_by_a_stranger(self, name: str, seconds: float | None) -> None:
        self._memory._redis.tables.once[name] = self.now_seconds + (math.inf if seconds is None else seconds)

    def another(self) -> Store:
        return self._memory


class RedisWorld:
    real = True

    def __init__(self, real_redis: RealRedis) -> None:
        self.redis = real_redis
        self.client: redis.Redis = real_redis.client()
        self.bare: Store = self.another()
        self.store = sealed(self.bare, SEAL)
        self._saved: dict[bytes, tuple[int, Any]] = {}

    def advance(self, seconds: float) -> None:
        for name in ("dirty", "running", "delayed"):
            queue = BY_NAME[name].of(self.redis.prefix)
            members: list[Any] = self.client.zrange(queue, 0, -1)
            for key in members:
                self.client.zincrby(queue, -seconds, key)
        for stored in self.redis.all_keys():
            left = self.client.pttl(stored)
            if left > 0:
                self.client.pexpire(stored, max(0, left - round(seconds * 1000)))

    def flush(self) -> None:
        for stored in self.redis.all_keys():
            self.client.delete(stored)
        self.messages(0)

    def save(self) -> None:
        self._saved = {
            stored: (max(0, self.client.pttl(stored)), self.client.dump(stored)) for stored in self.redis.all_keys()
        }

    def go_back(self) -> None:
        self.flush()
        for stored, (left, dump) in self._saved.items():
            self.client.restore(stored, left, dump)

    def messages(self, count: int) -> None:
        queue = BY_NAME["broker"].of(self.redis.prefix)
        self.client.delete(queue)
        for _ in range(count):
            self.client.lpush(queue, b"message")

    def queued_by_an_earlier_version(self, key: JobKey) -> None:
        self.client.zadd(BY_NAME["dirty"].of(self.redis.prefix), {key: self.client.time()[0]})

    def taken_by_a_stranger(self, name: str, seconds: float | None) -> None:
        self.client.set(
            BY_NAME["once"].of(self.redis.prefix, name), b"his", ex=None if seconds is None else int(seconds)
        )

    def another(self) -> Store:
        return open_store(self.redis.url, self.redis.prefix)
