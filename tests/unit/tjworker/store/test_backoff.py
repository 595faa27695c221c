"""Backoff: pure, and the same in Python as in finish.lua."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.conftest import RealRedis
from tests.support.backoff import key_backoff_seconds
from tests.support.queueing import acquire_one, finish_one
from tjworker.base import JobKey
from tjworker.store.connect import open_store
from tjworker.store.work_queue import WithBackoff

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")


@dataclass(frozen=True, slots=True)
class Case:
    failures: int
    want_between_seconds: tuple[float, float]


CASES = {
    "the first wait is about the base": Case(1, (0.8, 1.2)),
    "the tenth has reached the longest": Case(10, (240, 360)),
    "the ten-thousandth overflows nothing": Case(10_000, (240, 360)),
}


@pytest.mark.parametrize("sentence", CASES)
def test_backoff(sentence: str) -> None:
    low, high = CASES[sentence].want_between_seconds
    assert low <= key_backoff_seconds(KEY, CASES[sentence].failures, base_seconds=1, max_seconds=300) <= high


def test_keys_that_failed_together_are_spread_over_the_whole_range() -> None:
    keys = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/job-{n}") for n in range(1000)]
    waits = [key_backoff_seconds(key, 10, base_seconds=1, max_seconds=300) for key in keys]
    assert min(waits) < 245
    assert max(waits) > 355
    assert 295 < sum(waits) / len(waits) < 305


def test_redis_waits_as_long_as_python_says(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix, retry_base_seconds=0.5, retry_max_seconds=60)
    told = []
    for _ in range(12):
        store.queue.add([KEY])
        claim = acquire_one(store.queue, KEY, "worker", 30)
        assert claim is not None
        told.append(finish_one(store.queue, claim, next_pass=WithBackoff()).backoff_seconds)
    assert told == pytest.approx(
        [key_backoff_seconds(KEY, n, base_seconds=0.5, max_seconds=60) for n in range(1, 13)], abs=1e-6
    )
