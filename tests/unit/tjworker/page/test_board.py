"""Who reads the projection while Redis is silent: a reading then takes as long as its time-out."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.memory_history import MemoryHistory
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.api.observed import PodRecord
from tjworker.api.records_json import encode
from tjworker.base import Transient
from tjworker.history.records import Entry, Summary
from tjworker.history.store import Bounds
from tjworker.page.board import AGE_SECONDS, Board, EndedJobs, Reader, _pods
from tjworker.store import packing
from tjworker.store.redis_commands import RedisCommands
from tjworker.store.seal import SEAL_BYTES


class Turn:
    """A lock that knows how many have asked for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = threading.Semaphore(0)

    def __enter__(self) -> None:
        self._asked.release()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def was_asked_for(self) -> bool:
        return self._asked.acquire(timeout=PATIENCE_SECONDS)


class SilentRedis:
    """Each read fails, the first one once `silent` has returned."""

    client = SimpleNamespace()

    def __init__(self, silent: Callable[[], object]) -> None:
        self._silent = silent
        self.reads = 0

    def read(self, _: Callable[[], Any]) -> Any:
        self.reads += 1
        if self.reads == 1:
            self._silent()
        raise Transient(f"no answer to read {self.reads}")


def test_all_who_wait_for_a_reading_that_fails_get_its_failure_and_the_next_one_reads_anew() -> None:
    turn, views = Turn(), 6
    redis = SilentRedis(lambda: [turn.was_asked_for() for _ in range(views)])
    reader = Reader(cast(RedisCommands, redis), None)
    reader._lock = cast(threading.Lock, turn)

    def look(_: int) -> str:
        with pytest.raises(Transient) as raised:
            reader.refresh()
        return raised.value.message

    with ThreadPoolExecutor(views) as threads:
        told = list(threads.map(look, range(views)))
    assert (told, redis.reads) == (["no answer to read 1"] * views, 1)

    assert look(0) == "no answer to read 2"
    assert reader.board == Board()


PODS: dict[str, tuple[PodRecord, str]] = {
    "it waits": (PodRecord("p", "u", 1, phase="Pending"), "Pending"),
    "it runs": (PodRecord("p", "u", 1, phase="Running"), "Running"),
    "it is being deleted": (PodRecord("p", "u", 1, phase="Running", deleted_at="2026-01-01T00:00:00Z"), "Terminating"),
    "it has succeeded": (PodRecord("p", "u", 1, phase="Succeeded"), ""),
    "it has failed": (PodRecord("p", "u", 1, phase="Failed"), ""),
}
"""A pod, and how it stands on its node; '' for one that takes no place there any more."""


@pytest.mark.parametrize("sentence", PODS)
def test_which_pods_stand_on_a_node(sentence: str) -> None:
    record, want = PODS[sentence]
    sealed = bytes(SEAL_BYTES) + packing.pack(encode(record))
    assert [pod.phase for pod in _pods({b"pods/p": b"1 " + sealed, b"job": b""})] == [want] * bool(want)


READINGS: dict[str, tuple[float, bool]] = {
    "a moment later": (AGE_SECONDS - 0.1, False),
    "once it is old": (AGE_SECONDS, True),
    "after the clock was set back": (-3600.0, True),
}


@pytest.mark.parametrize("sentence", READINGS)
def test_when_the_board_is_read_again(sentence: str) -> None:
    later, again = READINGS[sentence]
    redis = SilentRedis(lambda: None)
    reader = Reader(cast(RedisCommands, redis), None, now=lambda: 1e9 + later)
    reader._board = Board(read_at=1e9)
    with suppress(Transient):
        reader.refresh()
    assert bool(redis.reads) == again


def test_the_lists_of_all_viewers_share_one_reading_of_the_history_and_its_failure() -> None:
    now, history = [0.0], MemoryHistory(Bounds(1e9, 10))
    jobs = EndedJobs(history, now=lambda: now[0])
    history.put(
        [Entry("team-a", "u1", Summary("jobs", "team-a", "one", "u1", deleted_at="2026-01-01T00:00:00Z"), 1e12)], 0
    )
    assert [job.name for job in jobs.read()] == ["one"]
    history.away = True
    now[0] = AGE_SECONDS - 0.1
    assert [job.name for job in jobs.read()] == ["one"]
    now[0] = AGE_SECONDS
    for _ in range(2):
        with pytest.raises(Transient):
            jobs.read()
        history.away = False
    now[0] = 2 * AGE_SECONDS
    assert [job.name for job in jobs.read()] == ["one"]
