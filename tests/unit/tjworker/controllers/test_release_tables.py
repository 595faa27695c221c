"""What the end of a pass asks of the work queue; and of which job a pod is the first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.builders import make_job, make_pod, observe
from tjworker.api.observed import Observed, WorkloadRecord
from tjworker.api.status import RestartCounts
from tjworker.base import JobKey
from tjworker.controllers.observing import JobObservation
from tjworker.controllers.pass_end import AwaitWatch, Done, LeaseLost, PassEnd, QueueAgain, RetryWithBackoff
from tjworker.controllers.release import STALE_LONGEST_SECONDS, STALE_PASSES_ON_EVENT, STALE_RETRY_SECONDS, Releases
from tjworker.store.work_queue import (
    NOTHING_WRITTEN,
    AtOnce,
    Claim,
    FinishResult,
    NextPass,
    OnNews,
    OnOwnWrite,
    PassEnding,
    WithBackoff,
)

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
    endings: list[PassEnding] = field(default_factory=list)
    published: list[JobKey] = field(default_factory=list)

    def finish_all(self, endings: list[PassEnding]) -> list[FinishResult]:
        self.endings += endings
        return [self.answer for _ in endings]

    def publish(self, keys: list[JobKey]) -> None:
        self.published += keys


def released(result: PassEnd, queue: Queue) -> PassEnd:
    releases = Releases(queue, queue)  # type: ignore[arg-type]
    (worked,) = releases.release([(Held(), result)])  # type: ignore[list-item]
    assert (worked.key, worked.seconds) == (KEY, 1.5)
    return worked.end


ENDS: dict[str, tuple[PassEnd, PassEnding]] = {
    "it has nothing more to do": (Done("done"), PassEnding(Held().claim)),
    "it asks for another at once": (QueueAgain("done"), PassEnding(Held().claim, next_pass=AtOnce())),
    "it has a timer": (Done("done", 9.0), PassEnding(Held().claim, next_pass=OnNews(9.0))),
    "it has failed": (RetryWithBackoff("no"), PassEnding(Held().claim, next_pass=WithBackoff())),
    "it has failed and has a timer": (
        RetryWithBackoff("no", 9.0),
        PassEnding(Held().claim, next_pass=WithBackoff(9.0)),
    ),
    "its view was old": (AwaitWatch("old"), PassEnding(Held().claim, next_pass=OnNews(STALE_RETRY_SECONDS))),
    "its view is behind the own writes": (
        AwaitWatch("old", own_write=True),
        PassEnding(Held().claim, next_pass=OnOwnWrite(STALE_RETRY_SECONDS)),
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
    assert released(Done("done"), queue) == Done("done")
    assert queue.published == [KEY] * publish


def test_a_key_that_another_worker_has_is_not_given_back() -> None:
    queue = Queue()
    assert released(LeaseLost(), queue) == LeaseLost()
    assert queue.endings == []


def test_each_stale_pass_in_a_row_waits_twice_as_long_and_each_key_for_itself() -> None:
    queue = Queue()
    releases = Releases(queue, queue)  # type: ignore[arg-type]
    stale = AwaitWatch("old", own_write=True)

    def wait(key: JobKey, end: PassEnd) -> NextPass:
        releases.release([(Held(key), end)])  # type: ignore[list-item]
        return queue.endings[-1].next_pass

    for times in range(20):
        want = min(STALE_LONGEST_SECONDS, STALE_RETRY_SECONDS * 2**times)
        on_event = times < STALE_PASSES_ON_EVENT
        assert wait(KEY, stale) == (OnOwnWrite(want) if on_event else OnNews(want)), times
    assert wait(OTHER, stale) == OnOwnWrite(STALE_RETRY_SECONDS)
    assert wait(OTHER, RetryWithBackoff("failed")) == WithBackoff()
    assert wait(OTHER, stale) == OnOwnWrite(STALE_RETRY_SECONDS), "one that was not stale ends the row"


# -- the first pod of a job ------------------------------------------------------------------------
JOB = make_job().role("trainer", 1).build()
KEEPER = WorkloadRecord("digits-trainer", "u", 1)
HAD: dict[str, tuple[dict[str, Any], Observed, bool]] = {
    "it is new": ({}, Observed(), True),
    "it has a phase alone": ({"phase": "Pending"}, Observed(), True),
    "it has a pod": ({}, observe(make_pod(JOB, "trainer")), False),
    "it has a ReplicaSet": ({}, Observed(replicasets=(KEEPER,)), False),
    "it ran once": ({"start_running_time": "2026-01-01T00:00:00Z"}, Observed(), False),
    "it has restarted before it ran": ({"restart_counts": {"trainer": RestartCounts(node=1)}}, Observed(), False),
    "it was suspended before it ran": ({"suspended_seconds": 5}, Observed(), False),
}


@pytest.mark.parametrize("sentence", HAD)
def test_whether_a_pod_is_the_first_of_its_job(sentence: str) -> None:
    status, observed, want = HAD[sentence]
    job = replace(JOB, status=JOB.status.model_copy(update=status).summarised())
    assert JobObservation(job, observed).is_new is want
