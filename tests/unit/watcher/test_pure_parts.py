"""The watcher's pure parts against small models of what they promise: random streams of pages and events, progress
beside sweeps, and the queue between threads.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.support.scripted_api import pod as raw_pod
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.watcher.writing import pod
from tjworker.api.resources import PODS
from watcher.event_queue import EventQueue, Forbidden, ListEnd, WatchEvents
from watcher.isolation import Skipped
from watcher.known_objects import KnownObjects
from watcher.progress import ProjectionProgress
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
