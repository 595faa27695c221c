"""Trainers that failed unobserved, in a job whose batch Job is Complete by then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from tests.unit.tjworker.reconcile.managed import made_pod, observed_of, plain, tolerant
from tests.unit.tjworker.reconcile.passes import NOW, after, decide, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.observed import PodRecord
from tjworker.api.status import Attempts, JobStatus, RoleAttempts
from tjworker.reconcile.plan import Plan
from tjworker.reconcile.policies.late_failures import LOOK_SECONDS

FIRST, SECOND = made_pod("t0", 0, state="succeeded"), made_pod("t1", 1, state="succeeded")


@dataclass(frozen=True)
class Case:
    pods: Sequence[PodRecord]
    want: dict[str, int]
    want_attempts: dict[str, int] = field(default_factory=dict)
    before: RoleAttempts = field(default_factory=RoleAttempts)
    job: Callable[..., TrainingJob] = tolerant


CASES: dict[str, Case] = {
    "none has failed": Case([FIRST, SECOND], {}),
    "one failed, and its replacement had no ordinal yet": Case(
        [FIRST, made_pod("t1", 1, state="failed"), made_pod("t1-again", state="succeeded")],
        {"application": 1},
        {"1": 1},
    ),
    "one failed before it had an ordinal": Case(
        [FIRST, made_pod("early", state="failed"), made_pod("t1", 1, state="succeeded")], {"application": 1}
    ),
    "one failed, and that was counted": Case(
        [FIRST, made_pod("t1", 1, state="failed"), made_pod("t1-again", 1, 1, state="succeeded")],
        {},
        {"1": 1},
        before=RoleAttempts(pods={"1": 1}),
    ),
    "one failed and was counted, its replacement failed too": Case(
        [FIRST, made_pod("t1", 1, state="failed"), made_pod("t1-again", 1, 1, state="failed")],
        {"application": 1},
        {"1": 2},
        before=RoleAttempts(pods={"1": 1}),
    ),
    "one was told to go, and ended": Case([FIRST, made_pod("t1", 1, state="stopped")], {}),
    "one failed in a job that is not fault tolerant, and was replaced": Case(
        [FIRST, made_pod("t1", 1, state="failed"), made_pod("t1-again", state="succeeded")],
        {"application": 1},
        {"1": 1},
        job=plain,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_failure_that_was_not_observed_counts_when_the_job_succeeds(case: Case) -> None:
    job = case.job(
        2,
        status=JobStatus(
            phase="Running", start_time="2026-01-01T00:00:00Z", attempts=Attempts(roles={"trainer": case.before})
        ),
    )
    seen = observed_of(job, case.pods, condition="Complete")
    plan = decide(job, seen)
    status = status_of(plan)
    assert status.ending is not None
    assert status.ending.phase == "Succeed"
    counts = status.restart_counts.get("trainer")
    assert ({cause: n for cause, n in counts.model_dump().items() if n} if counts else {}) == case.want
    assert status.attempts.roles["trainer"].pods == case.want_attempts
    assert len(status.failures) == sum(case.want.values())
    assert [tail.pod for tail in plan.log_tails] == [f.pod for f in reversed(status.failures) if f.container]
    told = [said for said in plan.decisions if "found after its batch Job" in said]
    assert len(told) == sum(case.want.values())
    again = decide(after(job, plan), seen)
    assert again.status is None or again.status.restart_counts == status.restart_counts, "a death was counted twice"


def test_while_the_batch_job_is_not_complete_it_is_judged_as_any() -> None:
    job = tolerant(2, status=JobStatus(phase="Running", start_time="2026-01-01T00:00:00Z"))
    plan = decide(job, observed_of(job, [FIRST, made_pod("t1", 1, state="failed")]))
    status = status_of(plan)
    assert status.ending is None
    assert status.restart_counts["trainer"].application == 1
    assert not any("found after its batch Job" in said for said in plan.decisions)


@dataclass(frozen=True)
class Late:
    pods: Sequence[PodRecord]
    want_end: bool
    succeeded: int = 2
    ago_seconds: float = 10


LATE: dict[str, Late] = {
    "All that the batch Job counts has been seen.": Late([FIRST, SECOND], True),
    "A pod of it runs still, as far as has been seen.": Late([FIRST, made_pod("t1", 1)], False, succeeded=1),
    "None of its pods has been seen.": Late([], False),
    "One of its two successes has been seen, and a failure.": Late([FIRST, made_pod("t1", 1, state="failed")], False),
    "One that goes is not waited for.": Late([FIRST, SECOND, made_pod("t2", state="deleting")], True),
    "What has not come a minute and a half later is gone.": Late([FIRST], True, ago_seconds=91),
}


@pytest.mark.parametrize("name", LATE)
def test_a_complete_batch_job_whose_pods_are_behind_it_ends_nothing_yet(name: str) -> None:
    case = LATE[name]
    job = tolerant(2, status=JobStatus(phase="Running", start_time="2026-01-01T00:00:00Z"))
    plan = decide(
        job,
        observed_of(
            job, case.pods, condition="Complete", succeeded=case.succeeded, completed_at=int(NOW - case.ago_seconds)
        ),
    )
    if case.want_end:
        assert status_of(plan).ending is not None
    else:
        assert plan == Plan(requeue_after_seconds=LOOK_SECONDS)
