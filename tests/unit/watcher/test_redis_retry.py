"""A Redis that is away is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.kinds import AITRAININGJOBS
from tests.unit.watcher.projection.objects import KEY
from tests.unit.watcher.writing import Bench, job
from tjworker.base import Fenced, JobKey, Terminal, Transient
from tjworker.store.projection import Change, Lost
from watcher.redis_retry import RedisRetry


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


@dataclass(frozen=True)
class Back:
    first_answer: Callable[[], Any]
    want_raised: type[Exception] | None = None
    want_away: bool = False


def _raise(error: Exception) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


BACK = {
    "with what was asked for": Back(lambda: 1),
    "with an older state, after the loss of its last second": Back(_raise(Lost("older")), Lost),
    "to say that another watcher leads": Back(_raise(Fenced("newer token")), Fenced),
    "to meet a bug": Back(_raise(ValueError("bug")), ValueError),
}


@pytest.mark.parametrize("sentence", BACK)
def test_redis_is_no_longer_away_once_it_comes_back(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BACK[sentence]
    monkeypatch.setattr("watcher.redis_retry.FIRST_WAIT_SECONDS", 0.001)
    retry = RedisRetry(threading.Event(), lambda: 0.0)
    answers = [_raise(Transient("refused")), _raise(Terminal("no memory")), case.first_answer]
    seen: list[bool] = []

    def call() -> Any:
        seen.append(retry.away)
        return answers.pop(0)()

    if case.want_raised is None:
        retry(call)
    else:
        with pytest.raises(case.want_raised):
            retry(call)
    assert (seen, retry.away) == ([False, True, True], False)
