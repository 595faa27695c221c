"""A task with several keys: what one bad job costs the others. The one is poisoned, slow, or its write hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.scenarios.world import CountingTransport, World, job, role
from tests.support.clocks import shared
from tests.support.passes import reconcile_key
from tests.support.queueing import acquire_one
from tests.support.waiting import until
from tjworker.base import JobKey, Terminal, Transient
from tjworker.controllers.jobs import JobPasses
from tjworker.controllers.pass_end import EndedPass
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse
from tjworker.settings import Settings
from tjworker.store.projection import View
from tjworker.store.work_queue import AtOnce, FinishResult, PassEnding, Taken
from tjworker.telemetry.events import EventRecorder
from tjworker.worker.runtime import Runtime, assemble

LEASE_SECONDS = Settings().lock_ttl_seconds
BAD = "bad"
GOOD = ("good-a", "good-b", "good-c")


def key_of(name: str) -> JobKey:
    return JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/{name}")


class Killed(BaseException):
    """SIGKILL: no handler runs, nothing is released."""


def pods_of(world: World, name: str) -> list[str]:
    return [pod for pod in world.pods() if pod.startswith(f"{name}-")]


# -- in one thread: a death ---------------------------------------------------------------------------


class Deadly:
    """Four jobs in one task; the pass of the bad one kills its process when it begins to write."""

    def __init__(self) -> None:
        self.world = World(nodes=4, seed=1)
        for name in (*GOOD[:1], BAD, *GOOD[1:]):
            self.world.apply(job({"trainer": role(1)}, name))
        self.world.watch()
        self.deaths = 0
        apply = self.world.worker._executor.apply

        def applied(of: Any, plan: Any, lease: Any) -> Any:
            if lease.key == key_of(BAD) and plan.writes:
                self.deaths += 1
                raise Killed
            return apply(of, plan, lease)

        self.world.worker._executor.apply = applied  # type: ignore[method-assign, assignment]

    def task(self) -> str:
        try:
            return reconcile_key(self.world.worker, "")
        except Killed:
            return "killed"

    def after_the_lease(self) -> list[JobKey]:
        self.world.cluster.advance(LEASE_SECONDS + 1)
        self.world.watch()
        return list(self.world.store.queue.resync(lost_after_seconds=1000, everything=False))


def test_a_pass_that_kills_its_process_is_found_out_alone_and_its_neighbours_are_not_blamed() -> None:
    room = Deadly()
    assert room.task() == "killed"
    assert room.after_the_lease() == sorted([key_of(BAD), *map(key_of, GOOD)]), "every key comes back"
    ended = [room.task() for _ in range(4)]
    assert sorted(ended)[-1] == "killed", "once more, and alone"
    assert sum("created 1 pod" in text or "Pending" in text for text in ended) == len(GOOD)
    assert room.after_the_lease() == []
    assert room.deaths == 2
    assert all(pods_of(room.world, name) for name in GOOD)
    assert dict(room.world.store.snapshot().deaths) == {key_of(BAD): 2}, "who has come to an end has not died"


def test_it_takes_no_second_task_with_it() -> None:
    """From its first death on it is alone, whoever queues."""
    room = Deadly()
    room.task()
    room.after_the_lease()
    for _ in range(4):
        room.task()
    for _ in range(3):
        room.world.cluster.advance(LEASE_SECONDS + 100)
        room.world.watch()
        room.world.store.queue.resync(lost_after_seconds=1000, everything=False)
        room.world.store.queue.take_due(10)
        before = room.deaths
        room.world.store.queue.add(map(key_of, GOOD))
        ended = [room.task() for _ in range(3)]
        assert room.deaths <= before + 1
        assert sum(text != "killed" and not text.startswith("nothing") for text in ended) >= 1
    assert room.deaths > 2, "it has been tried again"
    assert {key for key, deaths in room.world.store.snapshot().deaths.items() if deaths} == {key_of(BAD)}


# -- in threads: a write that hangs -------------------------------------------------------------------


class Slow(CountingTransport):
    """The local cluster takes one request at a time; those that create a pod of the bad job wait outside."""

    def __init__(self, world: World) -> None:
        super().__init__(world.cluster)
        self.mutex = threading.Lock()
        self.goes_on = threading.Event()
        self.error: Transient | None = None
        self.waits = threading.Event()

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        if method == "POST" and path.endswith("/pods") and b'"bad-' in (more.get("body") or b""):
            self.waits.set()
            assert self.goes_on.wait(120)
            if self.error is not None:
                raise self.error
        with self.mutex:
            return super().request(method, path, **more)


def assemble_in_threads(world: World, transport: Slow, write_concurrency: int = 1) -> Runtime:
    """As the product does; the scenarios' own worker makes one pass after another."""
    settings = world.settings.model_copy(update={"write_concurrency": write_concurrency})
    kube, clock = KubeClient(transport), shared(world.clock)
    events, passes = EventRecorder(kube, clock=clock), JobPasses(settings.keys_per_task)
    return assemble(settings, world.store, kube, world.queue, events, passes, owner="worker-1", clock=clock)


class Hanging:
    """One task with these jobs, each of so many pods."""

    def __init__(self, bad: Sequence[str] = (BAD,), pods: int = 1, write_concurrency: int = 1) -> None:
        self.world = World(nodes=4, seed=1)
        for name in (*bad, *GOOD):
            self.world.apply(job({"trainer": role(pods)}, name))
        self.world.watch()
        self.transport = Slow(self.world)
        runtime = assemble_in_threads(self.world, self.transport, write_concurrency)
        self.caller = ThreadPoolExecutor(1)
        self.task = self.caller.submit(runtime.jobs.run, key_of(bad[0]))

    def good_pods(self) -> set[str]:
        with self.transport.mutex:
            return {pod for name in GOOD for pod in pods_of(self.world, name)}

    def end(self) -> None:
        self.transport.goes_on.set()
        self.caller.shutdown()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    room = Hanging()
    yield room
    room.end()


@pytest.fixture
def hanging_everywhere() -> Iterator[Hanging]:
    """Two jobs whose writes hang, in more threads than there are."""
    room = Hanging(bad=("bad-a", "bad-b"), pods=8, write_concurrency=8)
    yield room
    room.end()


def test_the_others_of_a_task_are_written_and_released_while_a_write_of_one_hangs(hanging: Hanging) -> None:
    queue = hanging.world.store.queue
    until("the write hangs", hanging.transport.waits.is_set)
    until("the others are released", lambda: queue.stats().running == 1)
    assert len(hanging.good_pods()) == len(GOOD)
    assert not hanging.task.done()
    queue.add([key_of(GOOD[0])])
    assert acquire_one(queue, key_of(GOOD[0]), "worker-2", 30), "anybody may have it"
    hanging.transport.goes_on.set()
    assert {w.key for w in hanging.task.result(120)} == {key_of(name) for name in (BAD, *GOOD)}
    assert pods_of(hanging.world, BAD)
    assert queue.stats().running == 1, "that of worker-2"


def test_no_write_queues_for_a_thread_that_the_hanging_writes_of_others_keep(hanging_everywhere: Hanging) -> None:
    queue = hanging_everywhere.world.store.queue
    until("the good jobs are released", lambda: queue.stats().running == 2)
    assert len(hanging_everywhere.good_pods()) == 8 * len(GOOD)
    assert not hanging_everywhere.task.done()
    hanging_everywhere.transport.goes_on.set()
    assert [w.end.state for w in hanging_everywhere.task.result(120)] == ["done"] * 5
    assert len(hanging_everywhere.world.pods()) == 8 * 5, "the threads are free again, and nothing was left out"


# -- the store, of one key ------------------------------------------------------------------------------


class Together:
    """Good jobs in one task, in threads."""

    def __init__(self) -> None:
        self.world = World(nodes=4, seed=1)
        for name in GOOD:
            self.world.apply(job({"trainer": role(1)}, name))
        self.world.watch()
        self.jobs = assemble_in_threads(self.world, Slow(self.world)).jobs
        self.world.queue.published.clear()
        self.ended: list[EndedPass] = []

    def states(self) -> dict[str, str]:
        """One task."""
        self.ended = self.jobs.run("")
        return {w.key.rpartition("/")[2]: w.end.state for w in self.ended}


def test_an_end_that_the_store_refuses_hides_no_other() -> None:
    room = Together()
    finish = room.world.store.queue.finish_all

    def finish_all(endings: Sequence[PassEnding]) -> list[FinishResult]:
        refused = FinishResult(False, error=Terminal("WRONGTYPE"))
        said = zip(endings, finish([replace(end, next_pass=AtOnce()) for end in endings]), strict=True)
        return [refused if end.claim.key == key_of("good-a") else done for end, done in said]

    room.world.store.queue.finish_all = finish_all  # type: ignore[method-assign]
    assert room.states() == {"good-a": "failed", "good-b": "done", "good-c": "done"}
    assert set(room.world.queue.published) >= {key_of("good-b"), key_of("good-c")}


def test_a_view_that_cannot_be_read_fails_its_own_pass_alone() -> None:
    room = Together()
    acquire = room.world.store.queue.acquire_views

    def acquire_views(key: JobKey, owner: str, ttl_seconds: float, most: int) -> Taken:
        taken = acquire(key, owner, ttl_seconds, most)
        broken = View(None, fault=Terminal("WRONGTYPE"))
        return replace(taken, views=[(c, broken if c.key == key_of("good-a") else view) for c, view in taken.views])

    room.world.store.queue.acquire_views = acquire_views  # type: ignore[method-assign]
    assert room.states() == {"good-a": "failed", "good-b": "done", "good-c": "done"}
    assert room.world.store.queue.stats().running == 0
