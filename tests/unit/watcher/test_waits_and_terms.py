"""How often the watcher repairs, and how long a leader leads: each in virtual time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tjworker.base import Transient
from tjworker.settings import Settings
from watcher.leader import RETRY_SECONDS, Tenure
from watcher.repairs import Repairs


class Clock:
    """Also the event that ends every wait: waiting moves the clock."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.waits: list[float] = []
        self.stops_after = 99

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.seconds += seconds
        return len(self.waits) >= self.stops_after


# -- repairs ---------------------------------------------------------------------------------------
def repairs(clock: Clock, found: int = 0) -> tuple[Repairs, list[tuple[float, bool]]]:
    made: list[tuple[float, bool]] = []

    def repair(*, lease_seconds: float, everything: bool) -> int:
        assert lease_seconds == 77
        made.append((clock.seconds - 1000, everything))
        return found

    settings = Settings(resync_seconds=30, full_resync_seconds=90, lock_ttl_seconds=77)
    return Repairs(cast(Any, SimpleNamespace(repair=repair)), settings, clock.now), made


def test_the_queues_keys_are_looked_through_with_each_resync_and_all_with_each_full_one() -> None:
    clock = Clock()
    one, made = repairs(clock)
    for _ in range(24):
        clock.seconds += 10
        one.step()
    assert made == [
        (30, False),
        (60, False),
        (90, True),
        (120, False),
        (150, False),
        (180, True),
        (210, False),
        (240, False),
    ]


def test_a_refusal_is_looked_into_at_once_and_not_more_often_than_a_resync() -> None:
    clock = Clock()
    clock.seconds = 5.0  # a machine that has just started
    one, made = repairs(clock)
    for seconds in (0, 29, 1, 29, 1):
        clock.seconds += seconds
        one.repair_all()
    assert [(at + 995, everything) for at, everything in made] == [(0, True), (30, True), (60, True)]


# -- a leadership ----------------------------------------------------------------------------------
def tenure(clock: Clock, answers: list[bool | None]) -> Tenure:
    def renew() -> bool:
        answer = answers.pop(0)
        if answer is None:
            raise Transient("away")
        return answer

    return Tenure(renew, clock.now, renew_seconds=5, deadline_seconds=10)


def test_a_leader_renews_in_its_time_and_after_a_failure_sooner() -> None:
    clock = Clock()
    one = tenure(clock, [True, None, None, True])
    waits = [one.wait_seconds]
    for _ in range(4):
        assert one.renew() == ""
        waits.append(one.wait_seconds)
    assert waits == [5, 5, RETRY_SECONDS, RETRY_SECONDS, 5]


@pytest.mark.parametrize(("silent", "over"), [(9.0, False), (10.0, False), (10.1, True)])
def test_the_deadline_counts_from_the_last_renewal(silent: float, over: bool) -> None:
    clock = Clock()
    one = tenure(clock, [True, None])
    clock.seconds += 8
    assert one.renew() == ""
    clock.seconds += silent
    assert bool(one.renew()) is over
