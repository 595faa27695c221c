"""How long one pass may write: what a webhook that is away, or slow, makes wait is left to the job's next turn, and
what failed comes last then. Time is virtual: each request takes as long as the test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Event
from typing import Any, TypeVar

import pytest

from tests.unit.tjworker.execution.executing import Api, Room, count, refusal, status_of
from tjworker.base import Fenced, Transient
from tjworker.execution.executor import PASS_SECONDS, Outcome
from tjworker.execution.lease import Lease
from tjworker.execution.stragglers import MOST, Stragglers
from tjworker.execution.threads import Threads
from tjworker.kube.port import HttpResponse
from tjworker.reconcile.plan import Write
from tjworker.settings import Settings

T = TypeVar("T")

AWAY = refusal(500, "InternalError", 'failed calling webhook "protect": context deadline exceeded')
"""As an API server answers that has waited for its webhook."""
SILENT = Transient("no answer in time")
REQUEST_SECONDS = Settings().request_timeout_seconds


class Waits:
    """A room whose requests take time: `seconds` of those that begin so."""

    def __init__(self, seconds: Mapping[str, float], *, width: int = 1) -> None:
        self.room = Room(width=width)
        self.seconds = seconds
        ask = self.room.api.request

        def request(method: str, path: str, **more: Any) -> HttpResponse:
            begun = f"{method} {path.rpartition('/namespaces/default/')[2]}"
            self.room.world.clock.now_seconds += next(
                (s for start, s in self.seconds.items() if begun.startswith(start)), 0
            )
            return ask(method, path, **more)

        self.room.api.request = request  # type: ignore[method-assign]
        self.took = 0.0

    @property
    def api(self) -> Api:
        return self.room.api

    def turn(self, *writes: Write, **more: Any) -> Outcome:
        """One pass, with a lease of its own."""
        room = self.room
        room.lease = Lease(room.world.store.queue, room.claim, 1000.0, room.world.clock)
        room.job = room.read()
        began = room.world.clock()
        try:
            return room.apply(*writes, **more)
        finally:
            self.took = room.world.clock() - began


def test_a_pass_that_writes_slowly_stops_and_leaves_the_rest_to_its_next_turn() -> None:
    waits = Waits({"POST pods": 3})
    pods = [waits.room.pod(f"p{n:02}") for n in range(40)]
    done = waits.turn(*pods)
    assert (count(done, "created"), done.writes_left) == (4, 36)
    assert PASS_SECONDS <= waits.took < PASS_SECONDS + 3
    assert done.summary().endswith("created 4 pods, 36 more when it is its turn again")


def test_after_a_slow_status_the_other_writes_have_to_wait() -> None:
    waits = Waits({"PUT": REQUEST_SECONDS})
    done = waits.turn(waits.room.pod("a"), status=status_of(waits.room))
    assert (done.status_writes, count(done, "created"), done.writes_left) == (1, 0, 1)


def test_every_pass_gets_further_however_late_it_begins_to_write() -> None:
    waits = Waits({"GET": 2 * PASS_SECONDS})
    done = waits.turn(waits.room.pod("a"), waits.room.pod("b"))
    assert (count(done, "created"), done.writes_left) == (1, 1)


def test_of_forty_pods_one_that_may_not_go_is_all_that_is_left_however_long_each_try_takes() -> None:
    waits = Waits({})
    room = waits.room
    room.apply(*(room.pod(f"p{n:02}") for n in range(40)))
    waits.seconds = {"DELETE pods/p00": PASS_SECONDS}
    waits.api.instead["DELETE pods/p00"] = AWAY
    for _ in range(2):
        done = waits.turn(*(room.kill(name, grace_seconds=0) for name in room.names()))
        assert done.delete_error is not None
        assert waits.took <= PASS_SECONDS
    assert room.names() == ["p00"]


def test_a_delete_that_gets_no_answer_keeps_no_other_for_more_than_one_pass() -> None:
    waits = Waits({})
    room = waits.room
    room.apply(*(room.pod(name) for name in "abc"))
    waits.seconds = {"DELETE pods/a": REQUEST_SECONDS}
    waits.api.instead["DELETE pods/a"] = SILENT
    for _ in range(2):
        done = waits.turn(*(room.kill(name, grace_seconds=0) for name in room.names()))
        assert done.delete_error is not None
        assert "no answer in time" in done.delete_error.message
        assert waits.took == REQUEST_SECONDS
    assert room.names() == ["a"]


class Late(Threads):
    """A machine that sleeps before the second write of a batch begins."""

    def __init__(self, room: Room) -> None:
        super().__init__(8, "late")
        self.room = room

    def begin(self, work: Callable[[], T]) -> Future[T] | None:
        self.room.world.clock.now_seconds += 31
        return super().begin(work)


def test_no_write_begins_once_its_lease_has_lapsed() -> None:
    """Whoever has the key by then may have suspended the job."""
    room = Room(width=8)
    room.executor._threads = Late(room)
    with pytest.raises(Fenced):
        room.apply(room.pod("a"), room.pod("b"))
    assert room.names() == []
    assert room.api.asked == ["GET aitrainingjobs/digits"]


def test_threads_are_begun_only_while_some_are_free_and_all_are_free_in_the_end() -> None:
    threads, goes_on = Threads(3, "test"), Event()
    begun = [threads.begin(goes_on.wait) for _ in range(5)]
    goes_on.set()
    assert [one is not None for one in begun] == [True] * 3 + [False] * 2
    assert [one.result(60) for one in begun if one] == [True] * 3
    again = [threads.begin(lambda: True) for _ in range(3)]
    assert None not in again
    assert Threads(1, "test").begin(lambda: True) is None, "the caller is the one"


def test_a_process_remembers_so_many_failures_and_no_more() -> None:
    names = Stragglers()
    for number in range(MOST + 1):
        names.note(number, failed=True)
    assert names.put_failed_last([MOST, -1], lambda number: number) == [-1, MOST]
    assert names.put_failed_last([0, -1], lambda number: number) == [0, -1], "an old one is forgotten"
