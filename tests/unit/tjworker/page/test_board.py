"""When the page reads the projection and the history, and what it keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.memory_history import MemoryHistory
from tjworker.api.observed import PodRecord
from tjworker.api.records_json import encode
from tjworker.base import GroupResource, JobKey, Transient
from tjworker.history.records import Entry, Summary
from tjworker.history.store import Bounds
from tjworker.page.board import AGE_SECONDS, Board, BoardReader, EndedJobs, JobRow, _pods
from tjworker.store import packing
from tjworker.store.redis_commands import RedisCommands
from tjworker.store.seal import SEAL_BYTES


class BrokenRedis:
    """Each read fails."""

    client = SimpleNamespace()

    def __init__(self) -> None:
        self.reads = 0

    def read(self, _: Callable[[], Any]) -> Any:
        self.reads += 1
        raise Transient("no answer")


PODS: dict[str, tuple[PodRecord, str]] = {
    "it waits": (PodRecord("p", "u", 1, phase="Pending"), "Pending"),
    "it runs": (PodRecord("p", "u", 1, phase="Running"), "Running"),
    "it is being deleted": (PodRecord("p", "u", 1, phase="Running", deleted_at=1767225600), "Terminating"),
    "it has succeeded": (PodRecord("p", "u", 1, phase="Succeeded"), ""),
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
}


@pytest.mark.parametrize("sentence", READINGS)
def test_when_the_board_is_read_again(sentence: str) -> None:
    later, again = READINGS[sentence]
    redis = BrokenRedis()
    reader = BoardReader(cast(RedisCommands, redis), None, now=lambda: 1e9 + later)
    reader._board = Board(read_at=1e9)
    with suppress(Transient):
        reader.refresh()
    assert bool(redis.reads) == again


def test_a_list_of_the_history_is_good_for_a_moment_and_kept_while_the_history_is_away() -> None:
    now, history = [1e9], MemoryHistory(Bounds(1e9, 10))
    jobs = EndedJobs(history, now=lambda: now[0])
    history.put(
        [Entry("team-a", "u1", Summary("jobs", "team-a", "one", "u1", deleted_at="2026-01-01T00:00:00Z"), 1e12)], 0
    )
    first = jobs.read()
    assert ([job.name for job in first.jobs], first.read_at) == (["one"], 1e9)
    history.away = True
    now[0] += AGE_SECONDS - 0.1
    assert jobs.read() is first
    now[0] += 0.1
    with pytest.raises(Transient):
        jobs.read()
    assert jobs.last is first
    history.away = False
    assert jobs.read().read_at == now[0]


def test_a_bug_of_the_history_is_met_once_and_not_by_every_later_board() -> None:
    history = MemoryHistory(Bounds(1e9, 10))
    history.summaries = lambda: [] + None  # type: ignore[method-assign,operator]
    reader = BoardReader(cast(RedisCommands, BrokenRedis()), history, now=lambda: 1e9)
    ended_at = "2026-01-01T00:00:00Z"
    row = JobRow(JobKey("jobs/ns/one"), GroupResource("jobs"), "ns", "one", "Job", uid="u1", ended_at=ended_at)
    with pytest.raises(TypeError):
        reader._with_history({row.key: (1, row)})
    assert reader._with_history({row.key: (1, row)}) == {row.key: row}
