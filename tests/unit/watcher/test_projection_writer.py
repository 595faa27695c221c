"""The projection writer: what is written, what is published, and what the next writer may trust."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import KEY
from tests.unit.watcher.writing import SOURCES, Bench, Died, job, pod, whole
from tjworker.api.resources import NODES, PODS
from tjworker.base import JobKey, Transient


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
