"""The Store in memory: for tests and simulations. Says the same as `redis_store.py`; the contract suite holds it to that.

Thread-safe. `clock` gives seconds (any origin); nothing here sleeps or reads another clock. `flush` is FLUSHALL; `restore`
is a Redis that came back with an older state, from an old file or a replica that had not heard the last writes.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

from tjworker.base import Fenced, JobKey
from tjworker.store.backoff import backoff_seconds
from tjworker.store.keys import FACT_TTL_SECONDS
from tjworker.store.port import (
    NOTHING_WRITTEN,
    Change,
    ClusterView,
    FinishResult,
    History,
    Hold,
    Lost,
    QueueStats,
    View,
    Written,
)

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Lock:
    token: int
    owner: str
    ends: float


@dataclass(slots=True)
class _Facts:
    """Entries that are kept for FACT_TTL_SECONDS after the last one came."""

    entries: dict[str, int] = field(default_factory=dict)
    ends: float = 0.0


@dataclass(slots=True)
class _Data:
    """What Redis would hold; the names are those of `keys.py`."""

    token: int | None = None
    seq: int = 0
    synced: bool = False
    cluster: str = ""
    form: str = ""
    jobs: dict[JobKey, Change] = field(default_factory=dict)
    children: dict[JobKey, dict[tuple[str, str], Change]] = field(default_factory=dict)
    progress: dict[str, int] = field(default_factory=dict)
    seen: dict[JobKey, dict[str, int]] = field(default_factory=dict)
    gone: dict[JobKey, _Facts] = field(default_factory=dict)
    nodes: dict[str, bytes] = field(default_factory=dict)
    loads: dict[str, bytes] = field(default_factory=dict)
    dirty: dict[JobKey, float] = field(default_factory=dict)
    running: dict[JobKey, float] = field(default_factory=dict)
    delayed: dict[JobKey, float] = field(default_factory=dict)
    failures: dict[JobKey, int] = field(default_factory=dict)
    locks: dict[JobKey, _Lock] = field(default_factory=dict)
    fence: int = 0
    floor: dict[JobKey, _Facts] = field(default_factory=dict)
    echo: dict[JobKey, _Facts] = field(default_factory=dict)
    news: dict[JobKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    once: dict[str, float] = field(default_factory=dict)


def _whole(method: Callable[Concatenate[MemoryStore, P], T]) -> Callable[Concatenate[MemoryStore, P], T]:
    """One call at a time, as scripts run in Redis."""

    def locked(self: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._mutex:
            return method(self, *args, **kwargs)

    return locked


class MemoryStore:
    def __init__(
        self, clock: Callable[[], float] = time.time, *, retry_base_seconds: float = 1, retry_max_seconds: float = 300
    ) -> None:
        self._clock = clock
        self._retry = {"base_seconds": retry_base_seconds, "max_seconds": retry_max_seconds}
        self._mutex = threading.RLock()
        self._data = _Data()
        self._remembers = 0
        self._newest_seq = 0
        """Of all times. In Redis the clock has moved on by the next lead; a test's clock may stand still."""

    @_whole
    def flush(self) -> None:
        # In Redis the clock has moved on by the next token; a test's clock may stand still.
        self._data = _Data(fence=self._data.fence)

    @_whole
    def snapshot(self) -> _Data:
        return copy.deepcopy(self._data)

    @_whole
    def restore(self, snapshot: _Data) -> None:
        self._data = replace(copy.deepcopy(snapshot), fence=self._data.fence)

    def next_due(self) -> float | None:
        """When the next key falls due, by `clock`. For who moves the clock."""
        return min(self._data.delayed.values(), default=None)

    # -- projection ----------------------------------------------------------------------------------------------------
    @_whole
    def lead(self, token: int, form: str = "") -> None:
        if self._data.token is not None and self._data.token > token:
            raise Fenced(f"writer {token} by writer {self._data.token}: a newer holder has taken over")
        if form and self._data.form != form:
            self._data.form = ""
        self._data.token = token
        self._newest_seq = self._data.seq = self._remembers = self._newest_seq + 1

    @_whole
    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        self._check_writer(token)
        publish: dict[JobKey, None] = {}
        for change in changes:
            moved = self._change_job(change) if change.is_job else self._change_child(change)
            if moved and self._react(change):
                publish[change.key] = None
        for watch, rv in (progress or {}).items():
            self._data.progress[watch] = max(self._data.progress.get(watch, 0), rv)
        self._written()
        return list(publish)

    @_whole
    def apply_nodes(self, token: int, nodes: Mapping[str, bytes | None]) -> None:
        self._put_each(token, self._data.nodes, nodes)

    @_whole
    def apply_loads(self, token: int, loads: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        self._put_each(token, self._data.loads, loads, whole=whole)

    def _put_each(
        self, token: int, table: dict[str, bytes], records: Mapping[str, bytes | None], *, whole: bool = False
    ) -> None:
        self._check_writer(token)
        if whole:
            table.clear()
        for name, record in records.items():
            if record is None:
                table.pop(name, None)
            else:
                table[name] = record
        self._written()

    @_whole
    def cluster(self) -> ClusterView:
        data = self._data
        return ClusterView(dict(data.nodes), dict(data.loads), synced=data.token is not None and data.synced)

    @_whole
    def unfinished(self) -> Mapping[JobKey, tuple[int, bytes]]:
        return {key: (job.rv, job.record or b"") for key, job in sorted(self._data.jobs.items()) if not job.finished}

    @_whole
    def children(
        self, keys: Sequence[JobKey], resources: Sequence[str]
    ) -> Mapping[JobKey, Mapping[str, Mapping[str, bytes]]]:
        return {
            key: {
                resource: {
                    name: change.record or b""
                    for (of, name), change in sorted(self._data.children.get(key, {}).items())
                    if of == resource
                }
                for resource in resources
            }
            for key in keys
        }

    @_whole
    def mark_synced(self, token: int, cluster: str = "", form: str = "") -> None:
        self._check_writer(token)
        self._data.synced, self._data.form = True, form
        self._data.cluster = cluster or self._data.cluster
        self._written()

    @_whole
    def history(self) -> History:
        return History(self._data.cluster, dict(self._data.progress), synced=self._data.synced, form=self._data.form)

    @_whole
    def forget_history(self, token: int) -> None:
        self._check_writer(token)
        data = self._data
        data.synced, data.cluster = False, ""
        tables: tuple[dict[Any, Any], ...] = (
            data.jobs,
            data.children,
            data.progress,
            data.seen,
            data.gone,
            data.nodes,
            data.loads,
            data.floor,
            data.echo,
            data.news,
        )
        for table in tables:
            table.clear()
        self._written()

    @_whole
    def known_keys(self) -> Iterable[JobKey]:
        return sorted(self._data.jobs.keys() | self._data.children.keys())

    @_whole
    def known_children(self, keys: Sequence[JobKey], resource: str) -> Sequence[tuple[JobKey, str]]:
        return sorted((key, name) for key in keys for of, name in self._data.children.get(key, {}) if of == resource)

    @_whole
    def known_nodes(self) -> Iterable[str]:
        return sorted(self._data.nodes)

    @_whole
    def view(self, key: JobKey, node_names: Sequence[str] = ()) -> View:
        data = self._data
        job = data.jobs.get(key)
        children: dict[str, dict[str, bytes]] = {}
        for (resource, name), change in data.children.get(key, {}).items():
            children.setdefault(resource, {})[name] = change.record or b""
        namespace = key.split("/", 2)[1]
        of_watches = {watch.partition("/")[0] for watch in data.progress if watch.partition("/")[2] in ("", namespace)}
        resources = of_watches | data.seen.get(key, {}).keys() | ({key.split("/")[0]} if job else set())
        return View(
            job=job.record if job else None,
            children=children,
            seen={resource: self._seen(key, resource) for resource in resources},
            floor=dict(self._facts(data.floor, key)),
            synced=data.token is not None and data.synced,
            nodes=self.nodes(node_names),
        )

    @_whole
    def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]:
        return {name: self._data.nodes[name] for name in names if name in self._data.nodes}

    # -- work queue ----------------------------------------------------------------------------------------------------
    @_whole
    def add(self, keys: Iterable[JobKey]) -> list[JobKey]:
        return [key for key in keys if self._enqueue(key)]

    @_whole
    def add_after(self, key: JobKey, seconds: float) -> None:
        due = self._clock() + seconds
        self._data.delayed[key] = min(due, self._data.delayed.get(key, due))

    @_whole
    def take_due(self, limit: int) -> list[JobKey]:
        due = sorted((at, key) for key, at in self._data.delayed.items() if at <= self._clock())[:limit]
        for _, key in due:
            del self._data.delayed[key]
        return [key for _, key in due if self._enqueue(key)]

    @_whole
    def acquire(self, key: JobKey, owner: str, ttl_seconds: float) -> Hold | None:
        data = self._data
        if self._holder(key) is not None or data.dirty.pop(key, None) is None:
            return None
        data.fence = max(data.fence + 1, round(self._clock() * 1_000_000))
        ends = self._clock() + ttl_seconds
        data.locks[key] = _Lock(data.fence, owner, ends)
        data.running[key] = ends
        data.delayed.pop(key, None)
        data.news.pop(key, None)
        return Hold(key, data.fence, owner)

    @_whole
    def acquire_view(self, key: JobKey, owner: str, ttl_seconds: float) -> tuple[Hold, View] | None:
        hold = self.acquire(key, owner, ttl_seconds)
        return None if hold is None else (hold, self.view(key))

    @_whole
    def renew(self, hold: Hold, ttl_seconds: float) -> None:
        self._check_holder(hold)
        ends = self._clock() + ttl_seconds
        self._data.locks[hold.key].ends = ends
        self._data.running[hold.key] = ends

    @_whole
    def finish(
        self,
        hold: Hold,
        written: Written = NOTHING_WRITTEN,
        *,
        again: bool = False,
        after_seconds: float | None = None,
        failed: bool = False,
    ) -> FinishResult:
        data, key = self._data, hold.key
        self._raise(key, written)
        if self._holder(key) != hold.token:
            return FinishResult(False)
        self._expect_echoes(key, written)
        del data.locks[key]
        data.running.pop(key, None)
        backoff, failures = None, 0
        if failed:
            failures = data.failures[key] = data.failures.get(key, 0) + 1
            backoff = backoff_seconds(key, failures, **self._retry)
            self.add_after(key, backoff)
        else:
            data.failures.pop(key, None)
        if after_seconds is not None:
            self.add_after(key, after_seconds)
        changed = bool(data.news.pop(key, None))
        publish = changed or again or key in data.dirty
        if publish:
            data.dirty[key] = self._clock()
        return FinishResult(publish, backoff, failures)

    @_whole
    def raise_floor(self, hold: Hold, written: Written) -> None:
        self._raise(hold.key, written)
        self._check_holder(hold)
        self._expect_echoes(hold.key, written)

    # -- resync --------------------------------------------------------------------------------------------------------
    @_whole
    def resync(self, *, lost_after_seconds: float, everything: bool) -> list[JobKey]:
        data, now = self._data, self._clock()
        publish: dict[JobKey, None] = {}
        for _, key in sorted((ends, key) for key, ends in data.running.items() if ends <= now):
            del data.running[key]
            data.dirty[key] = now
            publish[key] = None
        for _, key in sorted((since, key) for key, since in data.dirty.items() if since <= now - lost_after_seconds):
            if self._holder(key) is None:
                publish[key] = None
        if everything:
            for key in sorted(key for key, job in data.jobs.items() if not job.finished):
                if self._enqueue(key):
                    publish[key] = None
        return list(publish)

    @_whole
    def once(self, name: str, period_seconds: float) -> bool:
        if self._data.once.get(name, self._clock()) > self._clock():
            return False
        self._data.once[name] = self._clock() + period_seconds
        return True

    @_whole
    def stats(self) -> QueueStats:
        data, now = self._data, self._clock()
        return QueueStats(
            queued=len(data.dirty),
            delayed=len(data.delayed),
            running=sum(ends >= now for ends in data.running.values()),
            oldest_seconds=max(0.0, now - min(data.dirty.values(), default=now)),
            unfinished=sum(not job.finished for job in data.jobs.values()),
            failing=len(data.failures),
        )

    def ping(self) -> None:
        return None

    # -- inside: the same steps as common.lua and apply.lua, under the same names --------------------------------------
    def _check_writer(self, token: int) -> None:
        if self._data.token is None:
            raise Lost("the projection has vanished")
        if self._data.token > token:
            raise Fenced(f"writer {token} by writer {self._data.token}: a newer holder has taken over")
        if self._data.token < token or self._data.seq < self._remembers:
            raise Lost("Redis came back with an older state")

    def _written(self) -> None:
        self._data.seq += 1
        self._remembers = self._data.seq
        self._newest_seq = max(self._newest_seq, self._data.seq)

    def _holder(self, key: JobKey) -> int | None:
        lock = self._data.locks.get(key)
        return lock.token if lock and lock.ends > self._clock() else None

    def _check_holder(self, hold: Hold) -> None:
        token = self._holder(hold.key)
        if token != hold.token:
            raise Fenced(f"{hold.key} token {hold.token}, holder {token or 'nobody'}: a newer holder has taken over")

    def _enqueue(self, key: JobKey) -> bool:
        if key in self._data.dirty:
            return False
        self._data.dirty[key] = self._clock()
        return self._holder(key) is None

    def _facts(self, table: dict[JobKey, _Facts], key: JobKey) -> dict[str, int]:
        """The entries of a key, to read or to change; empty once they have lapsed."""
        facts = table.get(key)
        if facts is None or facts.ends <= self._clock():
            facts = table[key] = _Facts()
        return facts.entries

    def _note(self, table: dict[JobKey, _Facts], key: JobKey, entry: str, rv: int) -> None:
        self._facts(table, key)[entry] = rv
        table[key].ends = self._clock() + FACT_TTL_SECONDS

    def _seen(self, key: JobKey, resource: str) -> int:
        plural, namespace, _ = key.split("/", 2)
        data = self._data
        job = data.jobs.get(key)
        return max(
            data.seen.get(key, {}).get(resource, 0),
            data.progress.get(resource, 0),
            data.progress.get(f"{resource}/{namespace}", 0),
            job.rv if job and resource == plural else 0,
        )

    def _raise(self, key: JobKey, written: Written) -> None:
        for resource, rv in (*written.gone, *written.versions):
            self._note(self._data.floor, key, resource, max(rv, self._facts(self._data.floor, key).get(resource, 0)))

    def _expect_echoes(self, key: JobKey, written: Written) -> None:
        for resource, rv in written.versions:
            version = f"{resource}:{rv}"
            if version in self._data.news[key]:
                self._data.news[key].discard(version)
            elif rv > self._seen(key, resource):
                self._note(self._data.echo, key, version, rv)

    def _react(self, change: Change) -> bool:
        version = f"{change.resource}:{change.rv}"
        if self._facts(self._data.echo, change.key).pop(version, None) is not None:
            return False
        if self._holder(change.key) is not None:
            self._data.news[change.key].add(version)
            return False
        return self._enqueue(change.key)

    def _is_news(self, change: Change, entry: str, stored: Change | None) -> bool:
        known = stored.rv if stored else self._facts(self._data.gone, change.key).get(entry, -1)
        if change.rv != known or stored is None:
            return change.rv > known
        return change.record is None or replace(change, record=stored.record, finished=stored.finished) != change

    def _change_job(self, change: Change) -> bool:
        """True when there is something to react to."""
        data, key = self._data, change.key
        if not self._is_news(change, "job", data.jobs.get(key)):
            return False
        if change.record is None:
            self._note(data.gone, key, "job", change.rv)
            data.jobs.pop(key, None)
            tables: tuple[dict[JobKey, Any], ...] = (
                data.dirty,
                data.delayed,
                data.failures,
                data.floor,
                data.echo,
                data.news,
            )
            for table in tables:
                table.pop(key, None)
            self._forget_when_empty(key)
            return False
        if change.finished:
            data.children.pop(key, None)
            data.seen.pop(key, None)
            data.gone.pop(key, None)
            self._facts(data.echo, key).pop(f"{change.resource}:{change.rv}", None)
        data.jobs[key] = change
        return not change.finished

    def _change_child(self, change: Change) -> bool:
        data, key = self._data, change.key
        job = data.jobs.get(key)
        if job and job.finished:
            return False
        group = data.children.get(key, {})
        entry = (change.resource, change.name)
        if not self._is_news(change, "/".join(entry), group.get(entry)):
            return False
        if change.record is None:
            self._note(data.gone, key, "/".join(entry), change.rv)
            group.pop(entry, None)
            self._forget_when_empty(key)
        else:
            data.children.setdefault(key, {})[entry] = change
        if job or change.record is not None:
            seen = data.seen.setdefault(key, {})
            seen[change.resource] = max(seen.get(change.resource, 0), change.rv)
        return job is not None

    def _forget_when_empty(self, key: JobKey) -> None:
        if not self._data.children.get(key):
            self._data.children.pop(key, None)
            if key not in self._data.jobs:
                self._data.seen.pop(key, None)
