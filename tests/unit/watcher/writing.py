"""A projection writer on a store in memory, and batches for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_store import MemoryStore
from tests.support.queueing import acquire_one, finish_one
from tests.unit.watcher.projection.objects import JOB, KEY, meta
from tjworker.api.resources import NODES, PODS
from tjworker.base import JobKey
from tjworker.store.projection import Lost
from watcher.event_queue import EventQueue, ListEnd, WatchEvents
from watcher.progress import BeganAnew
from watcher.projection import Projected, deletion, project
from watcher.projection_writer import ProjectionWriter
from watcher.redis_retry import RedisRetry

SOURCES = (AITRAININGJOBS, PODS, NODES)


class Bench:
    def __init__(
        self, store: MemoryStore | None = None, *, token: int = 1, now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.store = store or MemoryStore()
        self.published: list[JobKey] = []
        self.relists = 0
        self.stopped = threading.Event()
        self.publish: Callable[[Sequence[JobKey]], None] = self.published.extend
        self._token = token
        self._now = now
        self._make_writer()
        self.writer.lead()

    def _make_writer(self) -> None:
        self.events = EventQueue(50_000)
        self.redis = RedisRetry(self.stopped, lambda: 0.0)
        self.writer = ProjectionWriter(
            self.store, self._publish, self.events, redis=self.redis, token=self._token, sources=SOURCES, now=self._now
        )

    def _publish(self, keys: Sequence[JobKey]) -> None:
        self.publish(keys)

    def sync(self) -> None:
        """Every list is in; nothing more is told of them."""
        for source in SOURCES:
            self.put(source, listed=True)

    def put(
        self,
        source: str,
        *changes: Projected,
        position: int = 0,
        listed: bool = False,
        existing: frozenset[tuple[JobKey, str]] | None = None,
    ) -> None:
        self.events.put(
            ListEnd(source, position, changes, existing) if listed else WatchEvents(source, changes, position)
        )
        self.step()

    def step(self) -> None:
        """As the term does: what stood in the queue when the projection was lost goes with the writer."""
        try:
            self.writer.step(0)
            while self.writer._sweeps:
                self.writer.step(0)
        except (Lost, BeganAnew) as error:
            self.relists += 1
            self._make_writer()
            self.writer.lead(reset=isinstance(error, BeganAnew))

    def view(self) -> Any:
        return self.store.projection.view(JobKey(KEY))


def job(rv: int = 7, phase: str = "Running", uid: str = "job-uid", restarts: int = 0) -> Projected:
    projected = project(
        AITRAININGJOBS,
        {
            **JOB,
            "metadata": {**JOB["metadata"], "resourceVersion": str(rv), "uid": uid},
            "status": {"phase": phase, "restarts": restarts},
        },
    )
    assert projected is not None
    return projected


def pod(rv: int = 20, *, node: str = "node-a", name: str = "p0", uid: str = "job-uid") -> Projected:
    made = meta(name=name, resourceVersion=str(rv))
    made["ownerReferences"] = [{**made["ownerReferences"][0], "uid": uid}]
    projected = project(PODS, {"metadata": made, "spec": {"nodeName": node}})
    assert projected is not None
    return projected


def gone(projected: Projected, rv: int) -> Projected:
    return Projected(deletion(projected.change, rv))


def settle(bench: Bench) -> None:
    """A worker takes every key and lets go of it; what is published later is news."""
    for key in list(dict.fromkeys(bench.published)):
        claim = acquire_one(bench.store.queue, key, "w", 30)
        if claim is not None:
            finish_one(bench.store.queue, claim)
    bench.published.clear()


def whole(position: int = 50) -> Bench:
    """A first term that is synced up to there, of cluster red."""
    bench = Bench()
    for source in SOURCES:
        bench.events.put(ListEnd(source, position, cluster="red"))
    bench.step()
    return bench


def job_named(name: str, rv: int) -> Projected:
    projected = project(
        AITRAININGJOBS, {**JOB, "metadata": {**JOB["metadata"], "name": name, "resourceVersion": str(rv)}}
    )
    assert projected is not None
    return projected


class Died(Exception):
    """The process ends here."""
