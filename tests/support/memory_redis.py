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

from tjworker.base import DEATH_RETRY_MOST_SECONDS, KEYS_PER_TASK, Fenced, GroupResource, JobKey, death_wait_seconds
from tjworker.store.keys import FACT_TTL_SECONDS
from tjworker.store.projection import Change
from tjworker.store.work_queue import Claim, Written

P = ParamSpec("P")
T = TypeVar("T")


EDITED = "edited"


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
    children_in: bool = False
    cluster: str = ""
    form: str = ""
    jobs: dict[JobKey, Change] = field(default_factory=dict)
    children: dict[JobKey, dict[tuple[GroupResource, str], Change]] = field(default_factory=dict)
    known: set[JobKey] = field(default_factory=set)
    unfinished: set[JobKey] = field(default_factory=set)
    """Both name a job without a record, too, once a worker has distrusted it: until the list that follows."""
    progress: dict[str, int] = field(default_factory=dict)
    seen: dict[JobKey, dict[GroupResource, int]] = field(default_factory=dict)
    gone: dict[JobKey, Facts] = field(default_factory=dict)
    nodes: dict[str, bytes] = field(default_factory=dict)
    node_requests: dict[str, bytes] = field(default_factory=dict)
    dirty: dict[JobKey, float] = field(default_factory=dict)
    line: dict[JobKey, int] = field(default_factory=dict)
    in_line: dict[str, int] = field(default_factory=dict)
    missing: int = 0
    turn: int = 0
    running: dict[JobKey, float] = field(default_factory=dict)
    delayed: dict[JobKey, float] = field(default_factory=dict)
    failures: dict[JobKey, int] = field(default_factory=dict)
    deaths: dict[JobKey, int] = field(default_factory=dict)
    locks: dict[JobKey, Lock] = field(default_factory=dict)
    fence: int = 0
    min_observed: dict[JobKey, Facts] = field(default_factory=dict)
    echo: dict[JobKey, Facts] = field(default_factory=dict)
    news: dict[JobKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    once: dict[str, float] = field(default_factory=dict)
    rests: dict[JobKey, tuple[str, float]] = field(default_factory=dict)
    """Key -> (version, when that is forgotten)."""


class MemoryRedis:
    """The tables, a clock, and what every script may call."""

    def __init__(self, clock: Callable[[], float], broker: Callable[[], int]) -> None:
        self.clock = clock
        self.broker = broker
        """How many messages Celery's queue has."""
        self.mutex = threading.RLock()
        self.tables = Tables()

    def holder(self, key: JobKey) -> int | None:
        lock = self.tables.locks.get(key)
        return lock.token if lock and lock.ends > self.clock() else None

    def check_holder(self, claim: Claim) -> None:
        token = self.holder(claim.key)
        if token != claim.token:
            raise Fenced(f"{claim.key} token {claim.token}, holder {token or 'none'}: a newer holder has taken over")

    def line_up(self, key: JobKey) -> bool:
        tables, namespace = self.tables, namespace_of(key)
        if key in tables.line:
            return False
        before = max(0, min(tables.in_line.get(namespace, 0), len(tables.line)))
        tables.line[key] = tables.turn + before + 1
        tables.in_line[namespace] = before + 1
        return True

    def line_up_left_out(self, key: JobKey) -> None:
        if key in self.tables.dirty and key not in self.tables.running and self.holder(key) is None:
            self.line_up(key)

    def leave_line(self, key: JobKey) -> None:
        tables, namespace = self.tables, namespace_of(key)
        if tables.line.pop(key, None) is not None:
            tables.in_line[namespace] -= 1

    def count_death(self, key: JobKey) -> None:
        tables = self.tables
        if self.holder(key) is not None or tables.running.pop(key, None) is None:
            return
        deaths = tables.deaths[key] = tables.deaths.get(key, 0) + 1
        if deaths < 2 or EDITED in tables.news.get(key, ()):
            return
        tables.delayed[key] = self.clock() + death_wait_seconds(deaths)
        tables.dirty.pop(key, None)
        self.leave_line(key)

    def held(self, key: JobKey) -> bool:
        now = self.clock()
        due = self.tables.delayed.get(key, 0.0)
        return self.tables.deaths.get(key, 0) > 1 and now < due <= now + DEATH_RETRY_MOST_SECONDS

    def enqueue(self, key: JobKey, *, edited: bool = False) -> bool:
        if key in self.tables.dirty:
            return False
        self.count_death(key)
        if not edited and self.held(key):
            return False
        self.tables.dirty.setdefault(key, self.clock())
        return self.holder(key) is None and self.line_up(key)

    def take_back_death(self, key: JobKey) -> None:
        tables, free = self.tables, self.holder(key) is None
        if not free or tables.running.pop(key, None) is None:
            if not tables.deaths.get(key):
                return
            tables.deaths[key] -= 1
            if not tables.deaths[key]:
                del tables.deaths[key]
        if free:
            self.enqueue(key)
            self.line_up_left_out(key)

    def tasks_missing(self) -> int:
        return max(0, tasks_for(len(self.tables.line)) - self.broker())

    def to_publish(self, keys: list[JobKey]) -> list[JobKey]:
        return keys[: self.tasks_missing() * KEYS_PER_TASK]

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


def tasks_for(keys: int) -> int:
    """So many serve them."""
    return -(-keys // KEYS_PER_TASK)


def namespace_of(key: JobKey) -> str:
    return key.split("/", 2)[1] if key.count("/") > 1 else ""


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
