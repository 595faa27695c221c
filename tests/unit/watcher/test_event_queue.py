"""The events between reflectors and writer: what wakes the writer, and how a full queue holds the reflectors back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.watcher.writing import pod
from tjworker.api.node_requests import NodeRequests
from tjworker.api.resources import PODS
from tjworker.kube.reflector import Closed
from watcher.event_queue import Batch, EventQueue, WatchEvents

FOR_EVER = 3600.0


def news(source: str) -> Batch:
    return WatchEvents(source, (pod(1),))


def taken(events: EventQueue, *while_it_gathers: Callable[[], None]) -> list[str]:
    """The sources of what a `take` returns that gathers for ever: each call is made once it does."""
    got: list[Batch] = []
    thread = threading.Thread(target=lambda: got.extend(events.take(0, gather_seconds=FOR_EVER)))
    thread.start()
    waiters: Any = events._gathered
    until("it gathers", lambda: waiters._waiters)
    for call in while_it_gathers:
        call()
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "take did not return"
    return [batch.source for batch in got]


def test_what_comes_while_it_gathers_is_taken_together() -> None:
    events = EventQueue(10)
    events.put(news("first"))

    def time_is_up() -> None:
        with events._lock:
            events._gathered.notify_all()

    assert taken(events, lambda: events.put(news("second")), lambda: events.put(news("third")), time_is_up) == [
        "first",
        "second",
        "third",
    ]


def one(position: int, **more: Any) -> WatchEvents:
    """Of a watch, without changes: another one's pods."""
    return WatchEvents(PODS, position=position, **more)


def test_quiet_batches_of_one_source_become_one() -> None:
    events = EventQueue(10)
    first, second = NodeRequests(pods=1), NodeRequests(pods=2)
    events.put(one(7, requests={"node-0": first, "node-1": first}))
    events.put(one(8, requests={"node-1": second}))
    events.put(one(9))
    events.put(one(5, resumed=True))
    events.put(news("nodes"))
    events.put(one(10))
    assert events.take(0) == [
        one(9, requests={"node-0": first, "node-1": second}),
        one(5, resumed=True),
        news("nodes"),
        one(10),
    ]


def test_a_full_queue_holds_the_reflector_back_and_lets_it_go_on_in_order() -> None:
    events = EventQueue(capacity=2)
    taken: list[int] = []

    def reflector() -> None:
        for position in range(1, 7):
            events.put(WatchEvents(PODS, (pod(position),), position))

    thread = threading.Thread(target=reflector)
    thread.start()
    while len(taken) < 6:
        taken += [batch.position for batch in events.take(PATIENCE_SECONDS, limit=1)]
        assert len(events) <= 2
    thread.join(PATIENCE_SECONDS)
    assert taken == [1, 2, 3, 4, 5, 6]


def test_a_closed_queue_frees_a_waiting_reflector() -> None:
    events = EventQueue(capacity=1)
    events.put(WatchEvents(PODS, (pod(1),), 1))
    freed = threading.Event()

    def reflector() -> None:
        try:
            events.put(WatchEvents(PODS, (pod(2),), 2))
        except Closed:
            freed.set()

    thread = threading.Thread(target=reflector)
    thread.start()
    events.close()
    assert freed.wait(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)
