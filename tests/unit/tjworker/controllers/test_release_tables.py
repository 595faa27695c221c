"""What the end of a pass asks of the work queue, and what it tells; and of which job a pod is the first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.builders import make_job, make_pod, observe
from tjworker.api.observed import Observed, WorkloadRecord
from tjworker.api.status import RestartCounts
from tjworker.base import JobKey, Terminal, Transient
from tjworker.controllers.observing import Observation
from tjworker.controllers.release import (
    LOST,
    STALE_LONGEST_SECONDS,
    STALE_PASSES_AT_ONCE,
    STALE_RETRY_SECONDS,
    Releases,
)
from tjworker.controllers.result import BESIDE_RETRY_SECONDS, TERMINAL_RETRY_SECONDS, BesideRests, Result
from tjworker.reconcile.plan import Plan
from tjworker.store.work_queue import NOTHING_WRITTEN, Claim, Ending, FinishResult

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")
OTHER = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/other")


@dataclass
class Held:
    """A lease of that key."""

    key: JobKey = KEY
    held_seconds: float = 1.5
    written: Any = NOTHING_WRITTEN

    @property
    def claim(self) -> Claim:
        return Claim(self.key, 7, "worker-1")


NOTHING = FinishResult(publish=False)


@dataclass
class Queue:
    answer: FinishResult = NOTHING
    endings: list[Ending] = field(default_factory=list)
    published: list[JobKey] = field(default_factory=list)

    def finish_all(self, endings: list[Ending]) -> list[FinishResult]:
        self.endings += endings
        return [self.answer for _ in endings]

    def publish(self, keys: list[JobKey]) -> None:
        self.published += keys


def released(result: Result, queue: Queue) -> Result:
    releases = Releases(queue, queue)  # type: ignore[arg-type]
    (worked,) = releases.release([(Held(), result)])  # type: ignore[list-item]
    assert (worked.key, worked.seconds) == (KEY, 1.5)
    return worked.result


ENDS: dict[str, tuple[Result, Ending]] = {
    "it has nothing more to do": (Result("done"), Ending(Held().claim)),
    "it asks for another at once": (Result("done", again=True), Ending(Held().claim, again=True)),
    "it has a timer": (Result("done", after_seconds=9.0), Ending(Held().claim, after_seconds=9.0)),
    "it has failed": (Result("no", failed=True), Ending(Held().claim, failed=True)),
    "it has failed and has a timer": (
        Result("no", failed=True, after_seconds=9.0),
        Ending(Held().claim, failed=True, after_seconds=9.0),
    ),
    "its view was old": (Result("old", stale=True), Ending(Held().claim, after_seconds=STALE_RETRY_SECONDS)),
    "its view is behind the own writes": (
        Result("old", stale=True, behind=True),
        Ending(Held().claim, after_seconds=STALE_RETRY_SECONDS, behind=True),
    ),
}


@pytest.mark.parametrize("sentence", ENDS)
def test_what_the_queue_is_asked_for(sentence: str) -> None:
    result, want = ENDS[sentence]
    queue = Queue()
    released(result, queue)
    assert queue.endings == [want]


@pytest.mark.parametrize("publish", [True, False])
def test_a_key_that_is_due_is_published(publish: bool) -> None:
    queue = Queue(FinishResult(publish))
    assert released(Result("done"), queue) == Result("done")
    assert queue.published == [KEY] * publish


def test_a_key_that_another_worker_has_is_not_given_back() -> None:
    queue = Queue()
    assert released(LOST, queue) is LOST
    assert queue.endings == []


WAITS: dict[str, tuple[float | None, float | None, str]] = {
    "the backoff": (8.0, None, "no; next try in 8 s"),
    "a timer that is sooner": (8.0, 3.0, "no; next try in 3 s"),
    "the backoff, which is sooner than its timer": (8.0, 60.0, "no; next try in 8 s"),
    "none, of a key that is queued already": (None, None, "no; next try in 0 s"),
}


@pytest.mark.parametrize("sentence", WAITS)
def test_a_failed_pass_tells_when_the_next_try_is(sentence: str) -> None:
    backoff, timer, want = WAITS[sentence]
    told = released(
        Result("no", failed=True, after_seconds=timer), Queue(FinishResult(publish=False, backoff_seconds=backoff))
    )
    assert told == Result(want, failed=True, after_seconds=timer)


def test_a_pass_that_has_not_failed_tells_of_no_next_try() -> None:
    assert released(Result("done"), Queue(FinishResult(publish=False, backoff_seconds=8.0))).text == "done"


def test_a_key_that_cannot_be_given_back_is_told() -> None:
    told = released(Result("done"), Queue(FinishResult(publish=False, error=Terminal("no such script"))))
    assert (told.text, told.state) == ("done; cannot be given back: no such script", "failed")


def test_each_stale_pass_in_a_row_waits_twice_as_long_and_each_key_for_itself() -> None:
    queue = Queue()
    releases = Releases(queue, queue)  # type: ignore[arg-type]
    stale = Result("old", stale=True, behind=True)

    def wait(key: JobKey, result: Result) -> tuple[float | None, bool]:
        releases.release([(Held(key), result)])  # type: ignore[list-item]
        return queue.endings[-1].after_seconds, queue.endings[-1].behind

    for times in range(20):
        want = min(STALE_LONGEST_SECONDS, STALE_RETRY_SECONDS * 2**times)
        assert wait(KEY, stale) == (want, times < STALE_PASSES_AT_ONCE), times
    assert wait(OTHER, stale) == (STALE_RETRY_SECONDS, True)
    assert wait(OTHER, Result("failed", failed=True)) == (None, False)
    assert wait(OTHER, stale) == (STALE_RETRY_SECONDS, True), "one that was not stale ends the row"


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (Transient("quota", status=403), BESIDE_RETRY_SECONDS),
        (Terminal("forbidden", status=403), TERMINAL_RETRY_SECONDS),
    ],
)
def test_what_no_later_try_cures_rests_longer(error: Transient | Terminal, want: float) -> None:
    assert BesideRests(lambda: 0.0).refused(KEY, Plan(), error) == want


# -- the first pod of a job ------------------------------------------------------------------------
JOB = make_job().role("trainer", 1).build()
KEEPER = WorkloadRecord("digits-trainer", "u", 1)
HAD: dict[str, tuple[dict[str, Any], Observed, bool]] = {
    "it is new": ({}, Observed(), True),
    "it has a phase alone": ({"phase": "Pending"}, Observed(), True),
    "it has a pod": ({}, observe(make_pod(JOB, "trainer")), False),
    "it has a ReplicaSet": ({}, Observed(replicasets=(KEEPER,)), False),
    "it has a batch Job": ({}, Observed(jobs=(KEEPER,)), False),
    "it ran once": ({"start_running_time": "2026-01-01T00:00:00Z"}, Observed(), False),
    "it has restarted before it ran": ({"restart_counts": {"trainer": RestartCounts(node=1)}}, Observed(), False),
    "it was suspended before it ran": ({"suspended_seconds": 5}, Observed(), False),
}


@pytest.mark.parametrize("sentence", HAD)
def test_whether_a_pod_is_the_first_of_its_job(sentence: str) -> None:
    status, observed, want = HAD[sentence]
    job = replace(JOB, status=JOB.status.model_copy(update=status).summarised())
    assert Observation(job, observed).has_nothing_yet is want
