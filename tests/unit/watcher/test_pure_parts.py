"""The watcher's pure parts against small models of what they promise: random streams of pages and events, progress
beside sweeps, timers of finished jobs, an outage, and the queue between threads.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tests.support.scripted_api import pod as raw_pod
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.watcher.writing import pod
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.kube.reflector import Closed
from tjworker.store.projection import Change
from watcher.delay_queue import DUE_LIMIT, OVERDUE_SECONDS, DelayQueue
from watcher.event_queue import EventQueue, Forbidden, ListEnd, WatchEvents
from watcher.isolation import Skipped
from watcher.known_objects import KnownObjects
from watcher.outage import Outage
from watcher.progress import BeganAnew, ClusterHistory, ProjectionProgress
from watcher.projection import Projected


# -- known objects ---------------------------------------------------------------------------------
class Model:
    """What a reader must know after each step, and what it is told: the newest version wins, and a deletion counts
    unless it is older than what is known."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def put(self, name: str, rv: int) -> list[str]:
        if rv <= self.known.get(name, 0):
            return []
        self.known[name] = rv
        return [f"{name} {rv}"]

    def delete(self, name: str, rv: int) -> list[str]:
        if rv < self.known.get(name, 0):
            return []
        self.known.pop(name, None)
        return [f"{name} {rv} -"]

    def whole(self, shown: dict[str, int], rv: int) -> list[str]:
        told = [line for name, version in shown.items() for line in self.put(name, version)]
        gone = [name for name in self.known if name not in shown]
        return told + [line for name in gone for line in self.delete(name, rv)]


def told(found: Sequence[Projected]) -> list[str]:
    return [f"{p.change.name} {p.change.rv}{' -' if p.change.record is None else ''}" for p in found]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_known_of_objects_is_the_newest_whatever_comes_late(seed: int) -> None:
    rng = random.Random(seed)
    book, model = KnownObjects(PODS, Skipped("pods")), Model()
    version = 10
    for _ in range(60):
        version += rng.randint(0, 2)
        name = rng.choice("abc")
        late = max(1, version - rng.choice((0, 0, 0, 1, 3)))
        what = rng.random()
        if what < 0.5:
            assert told(book.event("MODIFIED", raw_pod(name, late))) == model.put(name, late), f"seed {seed}"
        elif what < 0.8:
            assert told(book.event("DELETED", raw_pod(name, late))) == model.delete(name, late), f"seed {seed}"
        else:
            shown = {n: rng.randint(max(1, model.known.get(n, version)), version) for n in "abc" if rng.random() < 0.7}
            behind = any(rv < model.known.get(n, 0) for n, rv in shown.items())
            book.rewound = False
            book.begin_list()
            found = book.page([raw_pod(n, rv) for n, rv in shown.items()])
            assert book.rewound is behind
            assert sorted(told([*found, *book.end_list(version)])) == sorted(model.whole(shown, version)), f"{seed}"
        assert {name for _, name in book.existing()} == model.known.keys()
        assert len(book) == len(model.known)


@pytest.mark.parametrize(("shown", "rewound"), [(9, True), (10, False), (11, False)])
def test_a_list_has_gone_back_when_it_shows_an_object_older_than_it_was(shown: int, rewound: bool) -> None:
    book = KnownObjects(PODS, Skipped("pods"))
    book.event("ADDED", raw_pod("a", 10))
    book.begin_list()
    book.page([raw_pod("a", shown)])
    assert book.rewound is rewound


# -- progress --------------------------------------------------------------------------------------
def listing(source: str, position: int, *, swept_first: bool = False) -> ListEnd:
    return ListEnd(source, position, existing=frozenset() if swept_first else None)


def test_progress_of_a_source_waits_for_its_sweep_and_what_comes_meanwhile_with_it() -> None:
    progress = ProjectionProgress(["pods"])
    progress.note(WatchEvents("pods", position=5))
    assert progress.take_unwritten() == {"pods": 5}
    progress.note(listing("pods", 10, swept_first=True))
    progress.note(WatchEvents("pods", position=14))
    progress.note(WatchEvents("pods", position=12))
    assert (progress.take_unwritten(), progress.complete, progress.has_list("pods")) == ({}, False, True)
    progress.note_sweep("pods")
    assert (progress.take_unwritten(), progress.complete) == ({"pods": 14}, True)
    assert progress.take_unwritten() == {}, "each once"


def test_a_sweep_that_ends_does_not_take_progress_back() -> None:
    progress = ProjectionProgress(["pods"])
    progress.note(WatchEvents("pods", position=20))
    progress.note(listing("pods", 10, swept_first=True))
    progress.note_sweep("pods")
    assert progress.take_unwritten() == {"pods": 20}


RUNTIMES = "clustertrainingruntimes.trainer.kubeflow.org"
SERVED: dict[str, tuple[set[str], set[str], bool]] = {
    # of pods and jobs in the namespaces a and b: which lists are refused, which are in, whether that is all. The list
    # of runtimes, which jobs only name, never comes.
    "everything is in": (set(), {"pods/a", "jobs.batch/a", "pods/b", "jobs.batch/b", "nodes"}, True),
    "one is missing": (set(), {"pods/a", "jobs.batch/a", "pods/b", "nodes"}, False),
    "a namespace is refused, the other is in": ({"pods/b"}, {"pods/a", "jobs.batch/a", "nodes"}, True),
    "one of it is refused, one of it is in": ({"pods/b"}, {"pods/a", "jobs.batch/a", "jobs.batch/b", "nodes"}, True),
    "a namespace is refused, the other is not whole": ({"pods/b"}, {"pods/a", "nodes"}, False),
    "all are refused": ({"pods/a", "jobs.batch/b"}, {"nodes"}, False),
    "what is of no namespace is waited for": ({"pods/b"}, {"pods/a", "jobs.batch/a"}, False),
    "what was refused has come": ({"pods/b"}, {"pods/a", "jobs.batch/a", "pods/b", "jobs.batch/b", "nodes"}, True),
}


@pytest.mark.parametrize("what", SERVED)
def test_when_every_list_is_in(what: str) -> None:
    refused, listed, want = SERVED[what]
    progress = ProjectionProgress(["pods/a", "jobs.batch/a", "pods/b", "jobs.batch/b", "nodes", RUNTIMES])
    for source in sorted(refused):
        progress.note(Forbidden(source))
    for source in sorted(listed):
        progress.note(listing(source, 7))
    assert progress.complete is want
    assert progress.unserved == {source.partition("/")[2] for source in refused - listed}


def test_what_is_of_all_namespaces_is_waited_for_also_when_it_is_refused() -> None:
    progress = ProjectionProgress(["pods"])
    progress.note(Forbidden("pods"))
    assert (progress.complete, progress.unserved) == (False, frozenset())


def test_a_list_beside_a_resumed_watch_may_be_behind_that_watch() -> None:
    history = ClusterHistory("red", {"pods": 50})
    history.check(WatchEvents("pods", position=90, resumed=True))
    history.check(ListEnd("pods", 60, cluster="red"))
    history.check(WatchEvents("pods", position=95))
    with pytest.raises(BeganAnew):
        history.check(ListEnd("pods", 80, cluster="red"))


# -- timers of finished jobs -----------------------------------------------------------------------
class Queue:
    """In the place of the work queue: what it was asked for."""

    def __init__(self, clock: list[float]) -> None:
        self._clock = clock
        self.timers: list[tuple[str, float]] = []
        self.added: list[list[str]] = []
        self.limits: list[int] = []

    def time(self) -> float:
        return self._clock[0]

    def add_after(self, key: JobKey, seconds: float) -> None:
        self.timers.append((key, seconds))

    def add(self, keys: Sequence[JobKey]) -> list[JobKey]:
        self.added.append(list(keys))
        return list(keys)

    def take_due(self, limit: int) -> list[JobKey]:
        self.limits.append(limit)
        return []


def finished(name: str, expires_at: float | None) -> Projected:
    change = Change(JobKey(f"x/default/{name}"), PODS, name, 1, b"{}", is_job=True)
    return Projected(change, expires_at=expires_at)


def timers(clock: list[float]) -> tuple[Queue, DelayQueue]:
    queue = Queue(clock)
    return queue, DelayQueue(cast(Any, queue), cast(Any, lambda call: call()))


def test_each_ttl_is_written_once_whenever_the_job_is_seen() -> None:
    clock = [1000.0]
    queue, delays = timers(clock)
    delays.note(finished("a", 1030.0))
    delays.note(finished("b", 990.0))
    delays.note(finished("c", None))
    delays.write_noted()
    assert queue.timers == [("x/default/a", 30.0), ("x/default/b", 0.0)]
    delays.write_noted()
    assert len(queue.timers) == 2, "once"
    delays.note(finished("a", 1030.0))
    delays.write_noted()
    assert queue.timers[2:] == [("x/default/a", 30.0)]


@pytest.mark.parametrize(("late", "want"), [(59.0, False), (60.0, False), (60.5, True), (9999.0, True)])
def test_a_finished_job_is_overdue_a_minute_after_its_ttl(late: float, want: bool) -> None:
    clock = [1000.0]
    queue, delays = timers(clock)
    delays.note(finished("b", 1000.0))
    delays.note(finished("a", 1000.0))
    delays.note(finished("later", 1_000_000.0))
    clock[0] += late
    assert OVERDUE_SECONDS == 60.0
    assert delays.queue_overdue() == (["x/default/a", "x/default/b"] if want else [])
    assert len(queue.added) == int(want), "Redis is not asked for nothing"


def test_a_job_whose_ttl_was_taken_away_or_that_went_is_not_overdue() -> None:
    clock = [1000.0]
    _, delays = timers(clock)
    delays.note(finished("a", 1000.0))
    delays.note(finished("a", None))
    clock[0] += 3600
    assert delays.queue_overdue() == []


def test_as_many_are_drained_as_one_look_may_take() -> None:
    queue, delays = timers([0.0])
    delays.drain()
    assert queue.limits == [DUE_LIMIT] == [1000]


# -- an outage -------------------------------------------------------------------------------------
def test_an_outage_lasts_from_the_first_failure_to_the_last_recovery() -> None:
    clock = [100.0]
    outage = Outage(lambda: clock[0])
    with capture_logs() as lines:
        for seconds, what in ((0, "fails pods"), (10, "fails nodes"), (20, "works pods"), (25, "works nodes")):
            clock[0] = 100.0 + seconds
            verb, _, source = what.partition(" ")
            getattr(outage, verb)(*((source, "refused") if verb == "fails" else (source,)))
        clock[0] = 200.0
        outage.fails("pods", "again")
        clock[0] = 203.0
        outage.works("pods")
    loud = [line for line in lines if line["log_level"] != "debug"]
    assert [line["log_level"] for line in loud] == ["warning", "info"] * 2
    assert [line["failed_for_seconds"] for line in loud if line["log_level"] == "info"] == [25.0, 3.0]
    assert loud[0]["resource"] == "pods"


# -- the queue between threads ---------------------------------------------------------------------
SIZES: dict[str, tuple[list[int], int, list[int]]] = {
    # changes of each batch, the limit of a take, how many batches are taken
    "all that fit": ([1, 1, 1], 5, [3]),
    "up to the limit and no more": ([1, 1, 1], 2, [2, 1]),
    "a batch is not cut": ([3, 1], 2, [1, 1]),
    "one that goes beyond is the last": ([1, 3, 1], 2, [2, 1]),
    "batches without changes cost nothing, and those in a row are one": ([0, 0, 2, 0], 2, [2, 1]),
    "a limit that is met exactly": ([2, 0, 1], 2, [1, 2]),
}


@pytest.mark.parametrize("what", SIZES)
def test_how_many_are_taken_at_once(what: str) -> None:
    sizes, limit, want = SIZES[what]
    events = EventQueue(100)
    for number, size in enumerate(sizes):
        events.put(WatchEvents(PODS, tuple(pod(number + 1) for _ in range(size)), number))
    assert len(events) == sum(sizes)
    taken = [events.take(0, limit=limit) for _ in want]
    assert [len(batches) for batches in taken] == want
    together = [batch.position for batches in taken for batch in batches]
    # Of batches without changes in a row, the last position holds.
    assert together == [n for n, size in enumerate(sizes) if size or n + 1 == len(sizes) or sizes[n + 1]]
    assert (len(events), events.take(0)) == (0, [])


def in_threads(count: int, call: Callable[[int], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_all_who_wait_for_room_go_on_when_there_is_room_for_all() -> None:
    events = EventQueue(3)
    events.put(WatchEvents(PODS, tuple(pod(n + 1) for n in range(3)), 1))
    threads = in_threads(3, lambda number: events.put(WatchEvents(PODS, (pod(number + 1),), 10 + number)))
    drained: Any = events._drained
    until("all three wait", lambda: len(drained._waiters) == 3)
    assert [batch.position for batch in events.take(0)] == [1]
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert {batch.position for batch in events.take(0)} == {10, 11, 12}


def test_a_closed_queue_is_empty_and_takes_nothing() -> None:
    events = EventQueue(3)
    events.put(WatchEvents(PODS, (pod(1),), 1))
    events.close()
    assert (len(events), events.take(0), events.take(PATIENCE_SECONDS)) == (0, [], [])
    with pytest.raises(Closed):
        events.put(WatchEvents(PODS))
