"""The worker: what each kind of error leads to. A pass is cut short by the error, and what is left in the queue is
looked at: no resync helps here, as it would in a scenario."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tests.scenarios.world import World, job, role
from tests.support.passes import reconcile_key
from tests.support.queueing import acquire_one
from tjworker.base import Conflict, Fenced, Invalid, JobKey, Terminal, Transient
from tjworker.controllers.pass_end import TERMINAL_RETRY_SECONDS
from tjworker.controllers.release import STALE_LONGEST_SECONDS, STALE_PASSES_ON_EVENT, STALE_RETRY_SECONDS
from tjworker.execution.executor import Outcome
from tjworker.kube.errors import ADMISSION_DENIED
from tjworker.store.projection import View

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")


class Room:
    """A job that waits for its first pass. `broken` raises instead of the executor's work, when it is set."""

    def __init__(self) -> None:
        self.world = World(nodes=1, seed=1)
        self.world.apply(job({"trainer": role(1)})).watch()
        self.broken: Callable[[], BaseException] | None = None
        apply = self.world.worker._executor.apply

        def applied(*arguments: Any) -> Any:
            if self.broken is not None:
                raise self.broken()
            return apply(*arguments)

        self.world.worker._executor.apply = applied  # type: ignore[method-assign, assignment]

    def handle(self) -> str:
        """One pass, whatever the queue says of its time."""
        self.world.store.queue.add([KEY])
        return reconcile_key(self.world.worker, KEY)

    def next_seconds(self) -> float | None:
        """Until the queue gives the key again; None when it never does by itself."""
        due = self.world.store.next_due()
        return None if due is None else round(due - self.world.clock(), 3)

    def is_free(self) -> bool:
        self.world.store.queue.add([KEY])
        claim = acquire_one(self.world.store.queue, KEY, "worker-2", 30)
        return claim is not None


@dataclass(frozen=True)
class Case:
    error: Callable[[], BaseException]
    want_seconds: tuple[float, float]
    """The next pass comes after that, at least and at most."""
    want_failing: int = 0
    """Failures in a row that the queue counts."""


def exactly(seconds: float) -> tuple[float, float]:
    return seconds, seconds


CASES = {
    "Conflict: the view was old, again in a moment": Case(lambda: Conflict("changed"), exactly(STALE_RETRY_SECONDS)),
    "Transient: again after a wait that grows": Case(lambda: Transient("away"), (0.8, 1.2), 1),
    "Transient, and the server names the wait: as it says, and it counts as no failure": Case(
        lambda: Transient("busy", retry_after_seconds=7), exactly(7)
    ),
    "Terminal: the long retry delay": Case(
        lambda: Terminal("no such verb", status=405), exactly(TERMINAL_RETRY_SECONDS)
    ),
    "a missing permission: as Transient, since an API server that has just started refuses everybody": Case(
        lambda: Terminal("forbidden", status=403), (0.8, 1.2), 1
    ),
    "Invalid: the long retry delay": Case(lambda: Invalid("no"), exactly(TERMINAL_RETRY_SECONDS)),
    "a bug: the long retry delay": Case(lambda: ZeroDivisionError("made up"), exactly(TERMINAL_RETRY_SECONDS)),
    "a pass that takes too long: as Transient": Case(SoftTimeLimitExceeded, (0.8, 1.2), 1),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_an_error_leads_to(case: Case) -> None:
    room = Room()
    room.broken = case.error
    room.handle()
    least, most = case.want_seconds
    seconds = room.next_seconds()
    assert seconds is not None, "nothing brings the key back"
    assert least <= seconds <= most
    assert room.world.store.queue.stats().failing == case.want_failing
    assert room.is_free(), "it still holds the key"


UNWRITTEN: dict[str, dict[str, Any]] = {
    "everything": {},
    "a create, for want of quota": {"create_error": Transient("quota", status=403), "creates_blocked": True},
    "a create, and a pod was made before": {"invalid_child": Invalid("no"), "made_pods": True},
    "a delete, for want of an answer": {"delete_error": Transient("no answer")},
    "a delete of a protected pod": {"delete_error": Transient("denied", reason=ADMISSION_DENIED)},
    "what stands beside the job": {"optional_error": Transient("quota", status=403)},
}
"""What a pass could write, or what not, and its outcome."""


@pytest.mark.parametrize("sentence", UNWRITTEN)
def test_no_wait_after_writes_that_fail_outlasts_a_timer_of_the_job(sentence: str) -> None:
    room = Room()
    worker = room.world.worker
    decide = worker._decide
    worker._decide = lambda found: replace(decide(found), requeue_after_seconds=3.0)  # type: ignore[method-assign]
    worker._executor.apply = lambda job, plan, lease: Outcome(job, **UNWRITTEN[sentence])  # type: ignore[method-assign]
    for _ in range(8):  # a backoff of a minute by then
        room.handle()
    assert room.next_seconds() == 3.0


def test_who_has_lost_the_lease_leaves_key_and_queue_to_the_next_holder() -> None:
    room = Room()
    room.broken = lambda: Fenced("another has it")
    assert room.handle() == "lost the lease"
    assert (room.next_seconds(), room.world.store.queue.stats().failing) == (None, 0)
    assert not room.is_free(), "the next holder's lock, as far as this one knows"


def test_a_view_that_only_looks_behind_the_own_writes_is_looked_at_again_at_once_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(View, "stale", property(lambda _: True))
    room = Room()
    room.world.store.queue.add([KEY])
    at_once = 0
    while room.world.store.queue.stats().queued and at_once < 100:
        reconcile_key(room.world.worker, KEY)
        at_once += 1
    assert at_once == STALE_PASSES_ON_EVENT + 1
    assert room.next_seconds() == STALE_LONGEST_SECONDS


def test_a_key_of_an_earlier_version_leaves_the_queue_when_its_task_comes() -> None:
    """A pass of the old version ended after the first list of the new one: no sweep finds its key."""
    room = Room()
    old = JobKey("aitrainingjobs/default/digits")
    room.world.store.queue.add([old])
    results = [reconcile_key(room.world.worker, old) for _ in range(2)]
    assert results[0].startswith(f"2 jobs: {old}: refused: "), results
    assert ": Pending" in results[0]
    assert results[1].startswith("refused: "), "the message alone"
    room.world.advance(60)
    assert old not in room.world.store.queue.resync(lost_after_seconds=0, everything=True)
