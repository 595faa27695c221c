"""The projection writer: what is written, what is published, and what the next writer may trust."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import KEY
from tests.unit.watcher.writing import SOURCES, Bench, Died, job, pod, whole
from tjworker.api.resources import NODES, PODS
from tjworker.base import JobKey, Transient
from watcher.event_queue import Batch, WatchEvents
from watcher.projection import Projected


def test_an_empty_redis_makes_everything_listed_again_before_views_are_decided_on() -> None:
    bench = Bench()
    for source in SOURCES:
        bench.put(source, position=5, listed=True, existing=frozenset())
    bench.store.flush()
    bench.put(PODS, pod(20))
    assert bench.relists == 1
    assert not bench.view().synced
    bench.put(AITRAININGJOBS, job(), position=7, listed=True, existing=frozenset({(JobKey(KEY), "digits")}))
    bench.put(PODS, pod(20), position=7, listed=True, existing=frozenset({(JobKey(KEY), "p0")}))
    bench.put(NODES, position=7, listed=True, existing=frozenset())
    assert bench.view().synced
    assert list(bench.view().children[PODS]) == ["p0"]


def test_keys_that_could_not_be_published_go_out_later(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr("watcher.redis_retry.FIRST_WAIT_SECONDS", 0.001)
    left = [2]

    def flaky(keys: Sequence[JobKey]) -> None:
        if left[0]:
            left[0] -= 1
            raise Transient("Redis cannot be reached")
        bench.published.extend(keys)

    bench.publish = flaky
    bench.put(AITRAININGJOBS, job())
    assert bench.published == [KEY]


def test_a_key_that_the_last_watcher_queued_and_did_not_publish_is_published_by_the_next() -> None:
    first = whole()

    def dies(keys: Sequence[JobKey]) -> None:
        raise Died

    first.publish = dies
    with pytest.raises(Died):
        first.put(AITRAININGJOBS, job(55), position=55)
    second = Bench(first.store, token=2)
    second.writer.take_over()
    second.step()
    assert second.published == [KEY]


A_JOB = tuple((seconds, "a") for seconds in (0.0, 0.004, 0.0, 0.006, 0.004))
"""What one of a single pod brings, where all is fast."""
GATHERS: dict[str, tuple[Sequence[tuple[float, str]], bool]] = {
    "the first change of all": ((), False),
    "what a job of one pod brings, within a moment": (A_JOB, False),
    "what jobs bring that come one after another": ([(s, name) for name in "abcdefg" for s, _ in A_JOB], False),
    "what comes beside many of one job": (((0.0, "a" * 50),), True),
    "what comes beside those of many jobs": (((0.0, "abcdefgh"),), True),
    "what comes when many have been quiet for a moment": (((0.0, "abcdefgh" * 20), (0.2, "")), False),
    "one of few a second": ([(0.06, "abc")] * 10, False),
}
"""What is written next -> (seconds that pass, the job of each change that comes then), and whether it waits for more of
its kind."""


def of(one: Projected, job_name: str) -> Projected:
    return replace(one, change=replace(one.change, key=JobKey(f"{KEY}-{job_name}")))


@pytest.mark.parametrize(("before", "want"), GATHERS.values(), ids=GATHERS.keys())
def test_changes_wait_for_others_only_where_there_are_many(
    before: Sequence[tuple[float, str]], want: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, waited = [100.0], list[float]()
    bench = Bench(now=lambda: clock[0])
    take = bench.events.take

    def taken(timeout_seconds: float, *, gather_seconds: float = 0.0) -> list[Batch]:
        waited.append(gather_seconds)
        return take(0)

    monkeypatch.setattr(bench.events, "take", taken)
    rv = 1
    for seconds, jobs in before:
        clock[0] += seconds
        bench.events.put(WatchEvents(PODS, [of(pod(rv := rv + 1), name) for name in jobs]))
        bench.writer.step(1)
    bench.events.put(WatchEvents(PODS, [pod(rv + 1)]))
    bench.writer.step(1)
    assert (waited[-1] > 0) == want
