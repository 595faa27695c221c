"""Clock, turns and repair in memory: answers as `redis_maintenance.py` does; the contract suite runs on both.
Thread-safe."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

from tests.support.memory_redis import OverRedis, namespace_of, whole
from tjworker.base import JobKey
from tjworker.store.keys import FACT_TTL_SECONDS

N = TypeVar("N", int, float)


def _at_most(queue: dict[JobKey, N], most: N, instead: N) -> int:
    late = [key for key, score in queue.items() if score > most]
    queue.update(dict.fromkeys(late, instead))
    return len(late)


class MemoryMaintenance(OverRedis):
    @whole
    def repair(self, *, lease_seconds: float, everything: bool) -> int:
        tables, now = self._redis.tables, self._redis.clock()
        repaired = _at_most(tables.dirty, now + 1, now)
        repaired += _at_most(tables.running, now + lease_seconds + 1, now + lease_seconds)
        repaired += _at_most(tables.line, tables.turn + len(tables.line) + 1, tables.turn + 1)
        waiting = Counter(namespace_of(key) for key in tables.line)
        if sum(tables.in_line.values()) != len(tables.line):
            tables.in_line, repaired = dict(waiting), repaired + 1
        for lock in tables.locks.values() if everything else ():
            if lock.ends > now + lease_seconds:
                lock.ends, repaired = now + lease_seconds, repaired + 1
        for table in (tables.gone, tables.min_observed, tables.echo) if everything else ():
            for facts in table.values():
                if facts.ends > now + FACT_TTL_SECONDS:
                    facts.ends, repaired = now + FACT_TTL_SECONDS, repaired + 1
        for key in [key for key, job in tables.jobs.items() if everything and not job.finished]:
            for names in (tables.known, tables.unfinished):
                repaired += key not in names
                names.add(key)
        return repaired

    @whole
    def once(self, name: str, period_seconds: float) -> bool:
        now = self._redis.clock()
        if now < self._redis.tables.once.get(name, now) <= now + period_seconds:
            return False
        self._redis.tables.once[name] = self._redis.clock() + period_seconds
        return True

    @whole
    def time(self) -> float:
        return self._redis.clock()

    def certificate_ends(self) -> float | None:
        return None
