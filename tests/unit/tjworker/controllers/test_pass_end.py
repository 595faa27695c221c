"""What each kind of error leads to: when the next pass begins, and whether the key's backoff grows."""

from __future__ import annotations

import pytest

from tjworker.base import REDIS_AWAY, Conflict, Invalid, OperatorError, Terminal, Transient
from tjworker.controllers.pass_end import (
    REDIS_RETRY_SECONDS,
    TERMINAL_RETRY_SECONDS,
    AwaitWatch,
    GiveUp,
    PassEnd,
    RetryAfter,
    RetryWithBackoff,
    after_error,
)

TIMERS = {
    "no timer": (None, None),
    "a timer that is due now, which must not make a refused pass spin": (0.0, None),
    "a timer in 2 s": (2.0, 2.0),
    "a time limit of a day, which delays no retry": (86_400.0, 86_400.0),
}
BACKOFF: dict[str, OperatorError] = {
    "the job is over its quota": Transient("exceeded quota", status=403, reason="QuotaExceeded"),
    "the API server does not answer": Transient("timed out"),
    "the API server knows no roles yet": Terminal("forbidden", status=403),
}


@pytest.mark.parametrize("error", BACKOFF.values(), ids=BACKOFF.keys())
@pytest.mark.parametrize(("timer", "want_latest"), TIMERS.values(), ids=TIMERS.keys())
def test_a_failed_pass_retries_with_backoff_but_no_later_than_a_timer_of_its_job(
    error: OperatorError, timer: float | None, want_latest: float | None
) -> None:
    assert after_error(error, timer) == RetryWithBackoff(error.message, want_latest)


LONG = f"next try in {TERMINAL_RETRY_SECONDS:.0f} s"
OTHERS: dict[str, tuple[OperatorError, PassEnd]] = {
    "the server names the wait": (
        Transient("busy", status=429, retry_after_seconds=7),
        RetryAfter("busy; next try in 7 s, as the server asked", 7),
    ),
    "Redis is away": (Transient("refused", reason=REDIS_AWAY), RetryAfter("refused", REDIS_RETRY_SECONDS)),
    "the view was stale": (Conflict("changed", status=409), AwaitWatch("stale view: changed")),
    "the job is at fault": (Invalid("no", status=422), GiveUp(f"Invalid: no; {LONG}", TERMINAL_RETRY_SECONDS)),
    "the operator has a bug": (
        Terminal("no such verb", status=405),
        GiveUp(f"Terminal: no such verb; {LONG}", TERMINAL_RETRY_SECONDS),
    ),
}


@pytest.mark.parametrize(("error", "want"), OTHERS.values(), ids=OTHERS.keys())
def test_an_error_with_a_wait_of_its_own_leaves_the_backoff_alone(error: OperatorError, want: PassEnd) -> None:
    assert after_error(error, 2.0) == want
