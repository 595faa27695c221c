"""The keys of Redis in memory, and the functions of `common.lua` over them, under the same names. For tests and
simulations.

Thread-safe: `whole` runs one call at a time, as Redis runs scripts. `clock` gives seconds (any origin); nothing here
sleeps or reads another clock.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec, TypeVar

from tjworker.base import Fenced, GroupResource, JobKey
from tjworker.store.keys import FACT_TTL_SECONDS
from tjworker.store.projection import Change
from tjworker.store.work_queue import Claim, Written

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Lock:
    token: int
    owner: str
    ends: float


@dataclass(slots=True)
class Facts:
    """Entries that are kept for FACT_TTL_SECONDS after the last one came."""

    entries: dict[str, int] = field(default_factory=dict)
    ends: float = 0.0


@dataclass(slots=True)
class Tables:
    """The names are those of `keys.py`."""

    token: int | None = None
    seq: int = 0
    synced: bool = False
    cluster: str = ""
    form: str = ""
    jobs: dict[JobKey, Change] = field(default_factory=dict)
    children: dict[JobKey, dict[tuple[GroupResource, str], Change]] = field(default_factory=dict)
    progress: dict[str, int] = field(default_factory=dict)
    seen: dict[JobKey, dict[GroupResource, int]] = field(default_factory=dict)
    gone: dict[JobKey, Facts] = field(default_factory=dict)
    nodes: dict[str, bytes] = field(default_factory=dict)
    node_requests: dict[str, bytes] = field(default_factory=dict)
    dirty: dict[JobKey, float] = field(default_factory=dict)
    running: dict[JobKey, float] = field(default_factory=dict)
    delayed: dict[JobKey, float] = field(default_factory=dict)
    failures: dict[JobKey, int] = field(default_factory=dict)
    locks: dict[JobKey, Lock] = field(default_factory=dict)
    fence: int = 0
    min_observed: dict[JobKey, Facts] = field(default_factory=dict)
    echo: dict[JobKey, Facts] = field(default_factory=dict)
    news: dict[JobKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    once: dict[str, float] = field(default_factory=dict)


class MemoryRedis:
    """The tables, a clock, and what every script may call."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.mutex = threading.RLock()
        self.tables = Tables()

    def holder(self, key: JobKey) -> int | None:
        lock = self.tables.locks.get(key)
        return lock.token if lock and lock.ends > self.clock() else None

    def check_holder(self, claim: Claim) -> None:
        token = self.holder(claim.key)
        if token != claim.token:
            raise Fenced(f"{claim.key} token {claim.token}, holder {token or 'nobody'}: a newer holder has taken over")

    def enqueue(self, key: JobKey) -> bool:
        if key in self.tables.dirty:
            return False
        self.tables.dirty[key] = self.clock()
        return self.holder(key) is None

    def facts(self, table: dict[JobKey, Facts], key: JobKey) -> dict[str, int]:
        """The entries of a key, to read or to change; empty once they have lapsed."""
        facts = table.get(key)
        if facts is None or facts.ends <= self.clock():
            facts = table[key] = Facts()
        return facts.entries

    def note(self, table: dict[JobKey, Facts], key: JobKey, entry: str, rv: int) -> None:
        self.facts(table, key)[entry] = rv
        table[key].ends = self.clock() + FACT_TTL_SECONDS

    def seen(self, key: JobKey, resource: GroupResource) -> int:
        plural, namespace, _ = key.split("/", 2)
        tables = self.tables
        job = tables.jobs.get(key)
        return max(
            tables.seen.get(key, {}).get(resource, 0),
            tables.progress.get(resource, 0),
            tables.progress.get(f"{resource}/{namespace}", 0),
            job.rv if job and resource == plural else 0,
        )

    def raise_min_observed(self, key: JobKey, written: Written) -> None:
        for resource, rv in (*written.gone, *written.versions):
            self.note(
                self.tables.min_observed,
                key,
                resource,
                max(rv, self.facts(self.tables.min_observed, key).get(resource, 0)),
            )

    def expect_echoes(self, key: JobKey, written: Written) -> None:
        for resource, rv in written.versions:
            version = f"{resource}:{rv}"
            if version in self.tables.news[key]:
                self.tables.news[key].discard(version)
            elif rv > self.seen(key, resource):
                self.note(self.tables.echo, key, version, rv)


class OverRedis:
    """One half of the store."""

    def __init__(self, redis: MemoryRedis) -> None:
        self._redis = redis


S = TypeVar("S", bound=OverRedis)


def whole(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """One call at a time, as scripts run in Redis."""

    def locked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._redis.mutex:
            return method(self, *args, **kwargs)

    return locked
