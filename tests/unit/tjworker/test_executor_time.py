"""How long one pass may write: what a webhook that is away, or slow, makes wait is left to the job's next turn, and
what failed comes last then. Time is virtual: each request takes as long as the test says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from threading import Event
from typing import Any, TypeVar

import pytest

from tests.unit.tjworker.executing import Api, Room, refusal, status_of
from tjworker.base import Fenced, JobKey, OperatorError, Transient
from tjworker.executor import PASS_SECONDS, Outcome
from tjworker.kube.port import HttpResponse
from tjworker.lease import Lease
from tjworker.reconcile.plan import Write
from tjworker.settings import Settings
from tjworker.stragglers import MOST, Stragglers
from tjworker.threads import Threads

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
    assert (done.creates, done.writes_left) == (4, 36)
    assert PASS_SECONDS <= waits.took < PASS_SECONDS + 3
    assert done.summary().endswith("created 4 pods, 36 more when it is its turn again")


def test_a_pass_that_writes_at_the_usual_speed_writes_all() -> None:
    waits = Waits({})
    done = waits.turn(*(waits.room.pod(f"p{n:02}") for n in range(40)))
    assert (done.creates, done.writes_left) == (40, 0)


@pytest.mark.parametrize("width", [1, 8])
def test_no_pass_takes_longer_than_its_time_and_one_batch(width: int) -> None:
    """Of hanging deletes: the requests of a batch go at once, on this clock one after another."""
    waits = Waits({"DELETE pods": 9.9}, width=width)
    waits.api.instead["DELETE pods"] = AWAY
    done = waits.turn(*(waits.room.kill(f"p{n}", "uid") for n in range(40)))
    assert done.delete_error is not None
    assert waits.took <= PASS_SECONDS + 9.9 * width
    assert done.writes_left == (38 if width == 1 else 32)


def test_after_a_slow_status_the_other_writes_have_to_wait() -> None:
    waits = Waits({"PUT": REQUEST_SECONDS})
    done = waits.turn(waits.room.pod("a"), status=status_of(waits.room))
    assert (done.status_writes, done.creates, done.writes_left) == (1, 0, 1)


def test_every_pass_gets_further_however_late_it_begins_to_write() -> None:
    waits = Waits({"GET": 2 * PASS_SECONDS})
    done = waits.turn(waits.room.pod("a"), waits.room.pod("b"))
    assert (done.creates, done.writes_left) == (1, 1)


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


ANSWERS: dict[str, HttpResponse | OperatorError] = {"an away webhook": AWAY, "silence": SILENT}


@pytest.mark.parametrize("answer", ANSWERS)
def test_creates_that_hang_keep_no_deletes_for_more_than_one_pass(answer: str) -> None:
    waits = Waits({})
    room = waits.room
    room.apply(room.pod("old"))
    waits.seconds = {"POST pods": REQUEST_SECONDS}
    waits.api.instead["POST pods"] = ANSWERS[answer]
    writes: list[Write] = [*(room.pod(f"p{n}") for n in range(9)), room.kill("old", grace_seconds=0)]
    first, second = waits.turn(*writes), waits.turn(*writes)
    assert [done.create_error is not None for done in (first, second)] == [True, True]
    assert (first.writes_left, second.writes_left) == (9, 8)
    assert room.names() == []


def test_what_failed_is_in_its_place_again_once_it_has_been_done() -> None:
    waits = Waits({})
    room = waits.room
    room.apply(*(room.pod(name) for name in "ab"))
    waits.api.instead["DELETE pods/a"] = AWAY
    patches = [room.kill(name, grace_seconds=0) for name in "ab"]
    waits.turn(*patches)
    waits.api.instead.clear()
    waits.turn(*patches[:1])
    waits.api.asked.clear()
    waits.turn(*patches)
    assert [asked for asked in waits.api.asked if asked.startswith("DELETE")] == ["DELETE pods/a", "DELETE pods/b"]


def test_a_holder_whose_clock_slept_with_it_makes_no_pods_without_a_status() -> None:
    room = Room()
    room.lease = Lease(room.world.store.queue, room.claim, 30.0, lambda: 0.0)
    room.world.clock.now_seconds += 31
    room.world.store.queue.add([room.claim.key])
    assert room.world.store.queue.acquire(room.claim.key, "worker-2", 30.0) is not None
    with pytest.raises(Fenced):
        room.apply(room.pod("a"), deferred_status=status_of(room))
    assert room.api.asked == []


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


def test_the_failures_of_one_job_move_nothing_of_another() -> None:
    waits = Waits({})
    room = waits.room
    waits.api.instead["POST pods"] = AWAY
    waits.turn(room.pod("a"))
    other = replace(room.claim, key=JobKey(room.claim.key.replace("digits", "other")))
    room.lease = Lease(room.world.store.queue, other, 1000.0, room.world.clock)
    waits.api.instead.clear()
    waits.api.asked.clear()
    room.executor._write_all(Outcome(room.job), [room.pod("b"), room.kill("c", "uid")], room.lease)
    assert waits.api.asked == ["POST pods", "DELETE pods/c"]


def test_a_process_remembers_so_many_failures_and_no_more() -> None:
    names = Stragglers()
    for number in range(MOST + 1):
        names.note(number, failed=True)
    assert names.put_failed_last([MOST, -1], lambda number: number) == [-1, MOST]
    assert names.put_failed_last([0, -1], lambda number: number) == [0, -1], "an old one is forgotten"
