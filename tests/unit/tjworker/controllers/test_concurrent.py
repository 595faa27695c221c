"""The passes of one task run concurrently, in real threads: which of them waits, and what is released when."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tests.support.waiting import until
from tjworker.controllers.concurrent import ConcurrentPasses


class Room:
    """A task in a thread of its own; `released` are the lists that it gave back."""

    def __init__(self, width: int = 4) -> None:
        self.passes: ConcurrentPasses[str] = ConcurrentPasses(width)
        self.released: list[list[str]] = []
        self.errors: list[Exception] = []
        """What the next releases raise."""
        self.held = threading.Event()

    def release(self, ended: Sequence[str]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.released.append(sorted(ended))

    def hangs(self) -> str:
        assert self.held.wait(60)
        return "hung"

    def begin(self, *passes: Callable[[], str]) -> Future[None]:
        caller = ThreadPoolExecutor(1)
        task = caller.submit(self.passes.run, passes, self.release)
        caller.shutdown(wait=False)
        return task

    def all_released(self) -> list[str]:
        return sorted(name for together in self.released for name in together)


def test_those_that_have_ended_are_released_while_one_hangs() -> None:
    room = Room()
    task = room.begin(room.hangs, lambda: "a", lambda: "b")
    until("the others are released", lambda: room.all_released() == ["a", "b"])
    assert not task.done()
    room.held.set()
    task.result(60)
    assert room.released[-1] == ["hung"]


def test_a_task_whose_passes_hang_keeps_no_other_task_of_its_process_from_beginning() -> None:
    """Celery's pool `threads` runs several."""
    room = Room(width=2)
    hung = room.begin(room.hangs, room.hangs)
    room.begin(lambda: "a", lambda: "b").result(60)
    assert not hung.done()
    room.held.set()
    hung.result(60)
    assert room.all_released() == ["a", "b", "hung", "hung"]


def test_a_release_that_fails_keeps_no_pass_from_its_end() -> None:
    """Redis is away: the error is the task's, once all have ended."""
    room = Room()
    room.errors = [ConnectionError("away")]
    ended: list[str] = []

    def does(name: str) -> Callable[[], str]:
        return lambda: ended.append(name) or name  # type: ignore[func-returns-value]

    with pytest.raises(ConnectionError):
        room.begin(does("a"), does("b")).result(60)
    assert sorted(ended) == ["a", "b"]


def test_the_soft_limit_of_time_costs_no_release() -> None:
    """Celery raises it in the task's own thread, wherever that is."""
    room = Room()
    room.errors = [SoftTimeLimitExceeded(), SoftTimeLimitExceeded()]
    task = room.begin(room.hangs, lambda: "a", lambda: "b")
    until("the others are released", lambda: room.all_released() == ["a", "b"])
    room.held.set()
    task.result(60)
    assert room.all_released() == ["a", "b", "hung"]


def test_what_breaks_a_pass_is_told_once_the_others_are_released() -> None:
    room = Room()

    def breaks() -> str:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        room.begin(breaks, lambda: "a").result(60)
    assert room.all_released() == ["a"]
