"""When what stands beside a job, and was refused, is tried again: after its rest, or at once when another is asked
for."""

from __future__ import annotations

from typing import Any

import pytest

from tjworker.api.resources import PODS, SERVICES
from tjworker.base import Invalid, JobKey, OperatorError, Transient
from tjworker.controllers.optional_objects import OPTIONAL_RETRY_SECONDS, OptionalRetries
from tjworker.controllers.pass_end import TERMINAL_RETRY_SECONDS
from tjworker.reconcile.plan import Create, Plan

A = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/a")
B = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/b")
REPLICA = Create(PODS, "a-trainer-0", {"spec": 1})
REFUSALS: dict[str, tuple[OperatorError, float]] = {
    "a quota": (Transient("exceeded quota", status=403, reason="QuotaExceeded"), OPTIONAL_RETRY_SECONDS),
    "called invalid": (Invalid("no", status=422), TERMINAL_RETRY_SECONDS),
}


def board(body: Any = 1, name: str = "a-tensorboard-0") -> Create:
    return Create(PODS, name, {"spec": body}, optional=True)


SERVICE = Create(SERVICES, "a-service", {"spec": 1}, optional=True)
NEXT: dict[str, tuple[JobKey, tuple[Create, ...], bool]] = {
    "the same again rests": (A, (REPLICA, board()), False),
    "the same rests whatever else the job asks for": (A, (board(),), False),
    "another body is tried at once": (A, (REPLICA, board(2)), True),
    "one more is tried at once": (A, (REPLICA, board(), SERVICE), True),
    "another job's is tried at once": (B, (REPLICA, board()), True),
}


@pytest.mark.parametrize("sentence", NEXT)
@pytest.mark.parametrize(("error", "rest"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_is_asked_for_next(sentence: str, error: OperatorError, rest: float) -> None:
    key, writes, tried = NEXT[sentence]
    now = [100.0]
    retries = OptionalRetries(lambda: now[0])
    assert retries.note_refusal(A, Plan(writes=(REPLICA, board())), error) == rest
    now[0] += rest - 1
    kept = retries.hold_back(key, Plan(writes=writes))
    assert kept.writes == (writes if tried else tuple(w for w in writes if not w.optional))
    assert kept.requeue_after_seconds == (None if tried else 1.0)


@pytest.mark.parametrize(("error", "rest"), REFUSALS.values(), ids=REFUSALS.keys())
def test_the_same_is_tried_again_when_it_has_rested(error: OperatorError, rest: float) -> None:
    now = [100.0]
    retries = OptionalRetries(lambda: now[0])
    plan = Plan(writes=(REPLICA, board()))
    retries.note_refusal(A, plan, error)
    now[0] += rest
    assert retries.hold_back(A, plan) == plan


def test_a_timer_of_the_job_is_not_put_off() -> None:
    retries = OptionalRetries(lambda: 100.0)
    retries.note_refusal(A, Plan(writes=(board(),)), Invalid("no", status=422))
    for timer, want in ((5.0, 5.0), (86_400.0, TERMINAL_RETRY_SECONDS)):
        assert retries.hold_back(A, Plan(writes=(board(),), requeue_after_seconds=timer)).requeue_after_seconds == want
