"""The time of decisions: Redis' clock, checked against the API server's; never that of the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import pytest
from structlog.testing import capture_logs

from tjworker.clock import ClusterClock

TRUE = 1_767_225_600.0
HOUR = 3600.0


def near(seconds: float, tolerance: float = 0.01) -> Any:
    """A Unix time. pytest's own tolerance, a millionth, would be half an hour."""
    return pytest.approx(seconds, abs=tolerance)


class Machine:
    """A machine on which seconds pass, and what its process has heard of other clocks."""

    def __init__(self, wall_ahead: float = 0.0, wrong: Callable[[str], None] = lambda clock: None) -> None:
        self.passed = 0.0
        self.slept = 0.0
        """Seconds that its monotonic clock has not counted."""
        self.asked = 0
        self.answer: float | None = None
        """By how much the API server is ahead when it is asked; None: it is away."""
        self.clock = ClusterClock(
            wall=lambda: TRUE + self.passed + self.slept + wall_ahead,
            monotonic=lambda: 17.0 + self.passed,
            wrong=wrong,
            ask_date=self._ask,
        )

    @property
    def true(self) -> float:
        return TRUE + self.passed + self.slept

    def _ask(self) -> None:
        self.asked += 1
        if self.answer is not None:
            self.hears(api_server_ahead=self.answer)

    def hears(self, redis_ahead: float | None = None, api_server_ahead: float | None = None) -> Machine:
        if redis_ahead is not None:
            self.clock.see_redis(self.true + redis_ahead)
        if api_server_ahead is not None:
            self.clock.see_date(formatdate(self.true + api_server_ahead, usegmt=True))
        return self


@dataclass(frozen=True, slots=True)
class Case:
    wall_ahead: float = 0.0
    redis_ahead: float | None = None
    api_server_ahead: float | None = None
    want_ahead: float = 0.0
    """Of the true time."""


CASES: dict[str, Case] = {
    "A machine whose clock is five minutes ahead decides by Redis' time.": Case(300, 0, None),
    "Where Redis is ahead of the API server, the API server's earlier time counts.": Case(0, 300, 0, 0.5),
    "Where Redis is behind the API server, Redis' earlier time counts.": Case(0, -300, 0, -300),
    "Clocks that differ by less than a few seconds agree, and Redis' counts.": Case(0, 3, 0, 3),
    "Before the first word of Redis the API server's time counts.": Case(300, None, 0, 0.5),
    "Before any word of another clock the machine's counts.": Case(300, None, None, 300),
}


@pytest.mark.parametrize("name", CASES)
def test_which_time_counts(name: str) -> None:
    case = CASES[name]
    machine = Machine(case.wall_ahead).hears(case.redis_ahead, case.api_server_ahead)
    assert machine.clock() == near(TRUE + case.want_ahead)
    machine.passed = 90.0
    assert machine.clock() == near(TRUE + 90 + case.want_ahead), "it goes on between two readings"


def test_a_machine_that_has_slept_decides_by_the_time_of_its_waking() -> None:
    machine = Machine()
    machine.answer = 0.0
    machine.hears(redis_ahead=0)
    machine.passed, machine.slept = 1.0, 3 * HOUR
    machine.hears(redis_ahead=0)
    assert machine.clock() == near(machine.true)


def test_redis_on_a_machine_that_is_ahead_is_checked_at_once() -> None:
    machine = Machine()
    machine.answer = 0.0
    machine.hears(redis_ahead=0)
    machine.passed = 1.0
    machine.hears(redis_ahead=120)
    assert machine.clock() == near(machine.true, 1.0)
    machine.passed = 2.0
    machine.hears(redis_ahead=0)
    assert machine.clock() == near(machine.true)


def test_an_api_server_whose_clock_was_set_right_is_heard_by_an_idle_worker() -> None:
    machine = Machine()
    machine.answer = -HOUR
    machine.hears(redis_ahead=0)
    assert machine.clock() == near(machine.true - HOUR, 1.0)
    machine.answer, machine.passed = 0.0, 2 * HOUR
    machine.hears(redis_ahead=0)
    assert machine.clock() == near(machine.true)


def test_an_api_server_that_is_away_or_busy_is_not_asked_with_each_claim() -> None:
    away, busy = Machine(), Machine()
    busy.answer = 0.0
    for passed in range(60):
        for machine in (away, busy):
            machine.passed = float(passed)
            machine.hears(redis_ahead=0)
    assert (away.asked, busy.asked) == (6, 1)


@pytest.mark.parametrize("header", ["", "yesterday", "Thu, 99 Foo 2026 00:00:00 GMT"])
def test_a_date_that_cannot_be_read_changes_nothing(header: str) -> None:
    machine = Machine().hears(redis_ahead=0)
    machine.clock.see_date(header)
    assert machine.clock() == near(TRUE)


def test_a_wrong_clock_is_logged_and_counted_once_and_again_after_ten_minutes() -> None:
    counted: list[str] = []
    machine = Machine(wall_ahead=300, wrong=counted.append)
    with capture_logs() as logs:
        for passed in (0.0, 1.0, 599.0, 601.0):
            machine.passed = passed
            machine.hears(redis_ahead=0)
    assert [(line["log_level"], line["process_ahead_seconds"]) for line in logs] == [("warning", 300.0)] * 2
    assert counted == ["process", "process"]
