"""A Redis that has reached maxmemory: one tenant's jobs cannot fill it by their size, deletions get through it, and
everything goes on once there is room, without a restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.support.valkey import Valkey
from tests.integration.store.worlds import SEAL
from tests.support.kinds import AITRAININGJOBS
from tests.support.queueing import finish_one
from tests.support.waiting import until
from tjworker.api.resources import NODES, PODS
from tjworker.base import MOST_KEPT_OF_A_JOB, REDIS_FULL, JobKey, Transient
from tjworker.store.connect import client, open_store
from tjworker.store.sealed_store import SealedStore, sealed
from watcher.event_queue import EventQueue, ListEnd, WatchEvents
from watcher.projection import Projected, deletion, identify, project
from watcher.projection_writer import ProjectionWriter
from watcher.redis_retry import RedisRetry, Stopped

SOURCES = (AITRAININGJOBS, PODS, NODES)
ROOM = 2 << 20
"""Bytes of Redis beyond what it needs when it is empty."""


def raw(name: str, rv: int, *, namespace: str = "a", text_bytes: int = 0, phase: str = "", **spec: Any) -> Any:
    container = {"name": "aitj-c", "image": "x", "args": [Random(rv).randbytes(text_bytes // 2).hex()]}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(rv)}
        | {"generation": 1},
        "spec": {"replicaSpecs": {"trainer": {"replicas": 1, "template": template}}, **spec},
        "status": {"phase": phase, "observedGeneration": 1} if phase else {},
    }


def shown(obj: Any) -> Projected:
    found = project(AITRAININGJOBS, obj)
    assert found is not None
    return found


def gone(name: str, rv: int) -> Projected:
    change = identify(AITRAININGJOBS, raw(name, rv))
    assert change is not None
    return Projected(deletion(change, rv))


def key(name: str, namespace: str = "a") -> JobKey:
    return JobKey(f"{AITRAININGJOBS}/{namespace}/{name}")


class Watcher:
    """The writer of a watcher, on its thread."""

    def __init__(self, url: str, token: int) -> None:
        self.url = url
        self.store: SealedStore = sealed(open_store(url, "tj"), SEAL)
        self.events = EventQueue(1_000)
        self.published: list[JobKey] = []
        self._stopped = threading.Event()
        self.redis = RedisRetry(self._stopped, lambda: 0.0, make_room=self._make_room)
        self.writer = ProjectionWriter(
            self.store,
            self.published.extend,
            self.events,
            redis=self.redis,
            token=token,
            sources=SOURCES,
            now=lambda: 0.0,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.writer.take_over()
            while not self._stopped.is_set():
                self.writer.step(0.05)
        except Stopped:
            return

    def _make_room(self) -> None:
        self.writer.make_room()

    def show(self, *changes: Projected, source: str = AITRAININGJOBS, **more: Any) -> None:
        self.events.put(WatchEvents(source, changes, **more))

    def list_everything(self, *changes: Projected, position: int) -> None:
        self.show(*changes)
        for source in SOURCES:
            existing = frozenset((one.change.key, one.change.name) for one in changes if source == AITRAININGJOBS)
            self.events.put(ListEnd(source, position, existing=existing))

    def has(self, name: str, namespace: str = "a") -> bool:
        return self.store.projection.view(key(name, namespace)).job is not None

    def close(self) -> None:
        self._stopped.set()
        self.events.close()
        self._thread.join()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with Valkey(tmp_path, options=("--maxmemory-policy", "noeviction")) as server:
        yield server.url


def limit(url: str, room: int) -> None:
    with client(url) as redis:
        used: Any = redis.info("memory")
        redis.config_set("maxmemory", used["used_memory"] + room)


def used(url: str) -> int:
    with client(url) as redis:
        found: Any = redis.info("memory")
        return int(found["used_memory"]) - int(found["mem_clients_normal"])


@pytest.fixture
def watcher(url: str) -> Iterator[Watcher]:
    made = Watcher(url, 1)
    made.list_everything(position=1)
    until("the projection is synced", lambda: made.writer.synced)
    limit(url, ROOM)
    yield made
    made.close()


def bytes_of(url: str, name: str) -> int:
    with client(url) as redis:
        found: Any = redis.memory_usage(f"tj:job:{key(name)}")
        return int(found)


RESTING: dict[str, dict[str, Any]] = {
    "a suspended job": {"phase": "Suspended", "suspend": True},
    "a job that has ended": {"phase": "Succeed"},
}


@pytest.mark.parametrize("sentence", RESTING)
def test_a_job_that_rests_costs_a_kilobyte_however_large_it_is(watcher: Watcher, url: str, sentence: str) -> None:
    for size in (100, 60_000, 1_200_000):
        name = f"fat{size}"
        watcher.show(shown(raw(name, 10 + size, text_bytes=size, **RESTING[sentence])))
        until(f"{name} is there", lambda name=name: watcher.has(name))  # type: ignore[misc]
        assert bytes_of(url, name) <= 1024


def test_a_refused_job_costs_a_kilobyte(watcher: Watcher, url: str) -> None:
    job = raw("refused", 10, text_bytes=60_000, phase="Failed")
    job["status"]["refused"] = True
    watcher.show(shown(job))
    until("it is there", lambda: watcher.has("refused"))
    assert bytes_of(url, "refused") <= 1024
    assert key("refused") in watcher.store.projection.unfinished()


def test_a_tenant_whose_large_jobs_are_suspended_fills_nothing_and_gives_it_back(watcher: Watcher, url: str) -> None:
    names = [f"fat{rv}" for rv in range(10, 70)]  # 72 MB of manifests, more than thirty times the room
    before = used(url)
    for rv, name in enumerate(names, 10):
        watcher.show(shown(raw(name, rv, text_bytes=1_200_000, suspend=True)))
    until("all are there", lambda: watcher.has(names[-1]))
    assert not watcher.redis.full
    watcher.show(shown(raw("new", 80, namespace="b")))
    until("the other tenant's job is there", lambda: watcher.has("new", "b"))
    watcher.show(*(gone(name, 90 + number) for number, name in enumerate(names)))
    until("none is left", lambda: not any(watcher.has(name) for name in names))
    until("its room is given back", lambda: used(url) - before < ROOM / 10)  # buffers of clients come and go
    assert list(watcher.store.projection.unfinished()) == [key("new", "b")]


def test_an_unfinished_job_is_kept_whole_up_to_the_limit(watcher: Watcher, url: str) -> None:
    watcher.show(shown(raw("kept", 50, text_bytes=MOST_KEPT_OF_A_JOB - 1_000)))
    until("it is there", lambda: watcher.has("kept"))
    assert bytes_of(url, "kept") > MOST_KEPT_OF_A_JOB / 2, "incompressible, so that it is kept whole"


def fill(watcher: Watcher) -> list[str]:
    """With as many jobs as it takes."""
    names: list[str] = []
    for rv in range(100, 300):
        if watcher.redis.full:
            limit(watcher.url, -ROOM // 2)  # buffers of clients come and go
            return names
        names.append(f"fat{rv}")
        watcher.show(shown(raw(names[-1], rv, text_bytes=60_000)))
        until("it is written or refused", lambda: watcher.redis.full or watcher.has(names[-1]))
    raise AssertionError("Redis was not filled")


def test_deletions_get_through_a_full_redis_and_then_everything_goes_on(watcher: Watcher) -> None:
    names = fill(watcher)
    watcher.show(shown(raw("new", 400, namespace="b")))
    with pytest.raises(Transient) as refused:
        watcher.store.projection.apply(1, [shown(raw("another", 401)).change])
    assert refused.value.reason == REDIS_FULL
    assert not watcher.has("new", "b")
    for number, name in enumerate(names):
        watcher.show(gone(name, 500 + number))
    until("the other tenant's job is there", lambda: watcher.has("new", "b"))
    until("Redis is no longer full", lambda: not watcher.redis.full)
    until("its key is published", lambda: key("new", "b") in watcher.published)
    assert not any(watcher.has(name) for name in names), "a deletion before its job's creation is kept in mind"
    assert [claim.key for claim, _ in watcher.store.queue.acquire_views(key("new", "b"), "w", 60, 1).views] == [
        key("new", "b")
    ]


def test_a_watcher_that_starts_beside_a_full_redis_sees_what_was_deleted_meanwhile(watcher: Watcher, url: str) -> None:
    names = fill(watcher)
    watcher.close()
    second = Watcher(url, 2)
    try:
        second.list_everything(shown(raw("new", 400, namespace="b")), position=600)
        until("the new job is there", lambda: second.has("new", "b"))
        until("it is synced", lambda: second.writer.synced)
        assert not any(second.has(name) for name in names)
    finally:
        second.close()


def test_a_pass_that_had_begun_comes_to_its_end_in_a_full_redis(watcher: Watcher) -> None:
    watcher.show(shown(raw("mine", 50, namespace="b")))
    until("it is there", lambda: watcher.has("mine", "b"))
    ((claim, _),) = watcher.store.queue.acquire_views(key("mine", "b"), "w", 60, 1).views
    fill(watcher)
    assert claim.key == key("mine", "b")
    finish_one(watcher.store.queue, claim)
    assert watcher.store.queue.stats().running == 0
