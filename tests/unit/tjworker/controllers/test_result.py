"""When a pass that was refused comes again: by its backoff, by the server's word, by a timer of the job."""

from __future__ import annotations

import pytest

from tjworker.base import REDIS_AWAY, REDIS_FULL, Conflict, Invalid, OperatorError, Terminal, Transient
from tjworker.controllers.result import REDIS_RETRY_SECONDS, TERMINAL_RETRY_SECONDS, after_error

TIMERS = {"no timer": None, "a timer that is due": 0.0, "a timer in 2 s": 2.0, "a time limit of a day": 86_400.0}
REFUSED: dict[str, OperatorError] = {
    "over its quota": Transient("exceeded quota", status=403, reason="QuotaExceeded"),
    "the API server does not answer": Transient("timed out"),
    "it knows no roles yet": Terminal("forbidden", status=403),
}


@pytest.mark.parametrize("error", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("timer", TIMERS.values(), ids=TIMERS.keys())
def test_a_refused_pass_has_its_backoff_and_comes_no_later_than_a_timer_of_its_job(
    error: OperatorError, timer: float | None
) -> None:
    """The queue keeps the earlier of the two: a limit of time that is far off delays no try."""
    result = after_error(error, timer)
    assert result.failed, "the backoff, whatever else there is to wait for"
    assert result.after_seconds == (timer or None), "a timer that is due now must not make a refused pass spin"
    assert (result.again, result.stale, result.terminal) == (False, False, False)


OTHERS: dict[str, tuple[OperatorError, float | None, bool, bool]] = {
    "the server names the wait": (Transient("busy", status=429, retry_after_seconds=7), 7, False, False),
    "Redis is away": (Transient("refused", reason=REDIS_AWAY), REDIS_RETRY_SECONDS, False, False),
    "Redis is full": (Transient("maxmemory", reason=REDIS_FULL), REDIS_RETRY_SECONDS, False, False),
    "the view was old": (Conflict("changed", status=409), None, True, False),
    "it is the job's fault": (Invalid("no", status=422), TERMINAL_RETRY_SECONDS, False, True),
    "it is a bug of ours": (Terminal("no such verb", status=405), TERMINAL_RETRY_SECONDS, False, True),
}


@pytest.mark.parametrize(("error", "want_seconds", "want_stale", "want_terminal"), OTHERS.values(), ids=OTHERS.keys())
def test_what_has_a_wait_of_its_own_counts_as_no_failure(
    error: OperatorError, want_seconds: float | None, want_stale: bool, want_terminal: bool
) -> None:
    result = after_error(error, 2.0)
    assert (result.after_seconds, result.stale, result.terminal) == (want_seconds, want_stale, want_terminal)
    assert not result.failed
