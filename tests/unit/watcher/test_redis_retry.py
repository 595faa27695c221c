"""A Redis that is away is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import KEY
from tests.unit.watcher.writing import Bench, job
from tjworker.base import JobKey, Transient
from tjworker.store.projection import Change


def test_a_redis_that_is_away_is_waited_for_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    real, left = bench.store.projection.apply, [3]

    def flaky(token: int, changes: Sequence[Change], **more: Any) -> list[JobKey]:
        if left[0]:
            left[0] -= 1
            raise Transient("Redis cannot be reached")
        return real(token, changes, **more)

    bench.store.projection.apply = flaky  # type: ignore[method-assign]
    monkeypatch.setattr("watcher.redis_retry.FIRST_WAIT_SECONDS", 0.001)
    bench.put(AITRAININGJOBS, job())
    assert bench.view().job is not None
    assert bench.published == [KEY]
    assert not bench.redis.away
