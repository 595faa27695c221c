"""A holder's lease: kept as long as it works, given up as soon as another worker may have the key, and cheap in
between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tests.support.memory_store import MemoryStore
from tests.support.queueing import acquire_one
from tjworker.api.resources import PODS
from tjworker.base import Fenced, JobKey, Transient
from tjworker.execution.lease import Lease

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")
TTL_SECONDS = 30.0


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Room:
    """A store with one key, held by a lease; `renewals` counts how often it was renewed."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = MemoryStore(clock=self.clock)
        self.renewals = 0
        self.answers_after_seconds = 0.0
        renew = self.store.queue.renew

        def counted(claim: object, ttl_seconds: float) -> None:
            self.renewals += 1
            renew(claim, ttl_seconds)  # type: ignore[arg-type]
            self.clock.now += self.answers_after_seconds

        self.store.queue.renew = counted  # type: ignore[method-assign]
        self.store.projection.lead(1)
        self.store.queue.add([KEY])
        claim = acquire_one(self.store.queue, KEY, "worker-1", TTL_SECONDS)
        assert claim is not None
        self.lease = Lease(self.store.queue, claim, TTL_SECONDS, self.clock)

    def works(self, seconds: float, *, every_seconds: float) -> None:
        """Write by write, for so long."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += every_seconds
            self.lease.ensure()

    def held(self) -> bool:
        self.store.queue.add([KEY])
        return acquire_one(self.store.queue, KEY, "worker-2", TTL_SECONDS) is None


@dataclass(frozen=True, slots=True)
class Case:
    do: Callable[[Room], None]
    want_renewals: int
    want_held: bool = True


CASES = {
    "a pass that ends soon never renews": Case(lambda r: r.works(9, every_seconds=1), 0),
    "a long pass renews at each third of the lease, and keeps the key": Case(
        lambda r: r.works(100, every_seconds=1), 10
    ),
    "writes that take just less than a lease each still keep it": Case(lambda r: r.works(116, every_seconds=29), 4),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_lease(case: Case) -> None:
    room = Room()
    case.do(room)
    assert room.renewals == case.want_renewals
    assert room.held() is case.want_held


def test_a_holder_that_slept_past_its_lease_is_told_before_its_next_write() -> None:
    room = Room()
    room.clock.now += TTL_SECONDS + 1
    assert not room.held(), "another worker has it now"
    with pytest.raises(Fenced):
        room.lease.ensure()


def test_a_pass_that_takes_too_long_is_told_where_it_asks_and_not_before() -> None:
    room = Room()
    lease = Lease(room.store.queue, room.lease.claim, TTL_SECONDS, room.clock, 45)
    for _ in range(5):
        room.clock.now += 9
        lease.ensure()
    room.clock.now += 0.1
    with pytest.raises(Transient, match=r"longer than 45 s \(TJ_TASK_SOFT_TIME_LIMIT_SECONDS\)"):
        lease.ensure()
    room.clock.now += TTL_SECONDS
    with pytest.raises(Fenced):
        lease.ensure()


def test_a_renewal_counts_from_when_it_was_asked_for_because_its_answer_may_be_late() -> None:
    """The store began to count before the answer came: after slow ones the key would be another's, unknown to its
    holder."""
    room = Room()
    room.answers_after_seconds = 12
    room.works(10, every_seconds=10)
    room.lease.ensure()
    assert room.renewals == 2


def test_what_a_long_pass_has_written_raises_the_minimum_observed_version_while_it_still_works() -> None:
    """Else a worker that takes over after a crash in the middle would trust a view from before those writes."""
    room = Room()
    room.lease.versions += [(PODS, 40), (PODS, 41)]
    room.works(9, every_seconds=1)
    assert room.store.projection.view(KEY).min_observed == {}, "not yet: a short pass tells it at its end"
    room.works(1, every_seconds=1)
    assert room.store.projection.view(KEY).min_observed == {PODS: 41}


# -- of several keys, renewed together ------------------------------------------------------------
def prove(room: Room) -> None:
    Lease.renew_together([room.lease])


def sleeps(seconds: float) -> Callable[[Room], None]:
    def slept(room: Room) -> None:
        room.clock.now += seconds

    return slept


def renew_once(room: Room) -> None:
    room.lease.renew_once()


def refuses(error: Exception) -> Callable[[Room], None]:
    """The store, all that are renewed together."""

    def away(_claims: object, _ttl_seconds: float) -> None:
        raise error

    def refused(room: Room) -> None:
        room.store.queue.renew_all = away  # type: ignore[method-assign, assignment]

    return refused


TOGETHER: dict[str, tuple[list[Callable[[Room], None]], int]] = {
    "what was renewed together a moment ago is not renewed again": ([prove, renew_once], 0),
    "it counts for one time": ([prove, renew_once, renew_once], 1),
    "it does not count after a sleep": ([prove, sleeps(0.2), renew_once], 1),
    "it keeps the lease like any other": ([sleeps(25), prove, sleeps(9), lambda r: r.lease.ensure()], 0),
    "where it failed for all, each asks for itself": ([refuses(Transient("Redis is away")), prove, renew_once], 1),
    "and where the task's time was over": ([refuses(SoftTimeLimitExceeded()), prove, renew_once], 1),
    "nothing is taken for renewed that was not": ([renew_once, renew_once], 2),
}


@pytest.mark.parametrize("sentence", TOGETHER)
def test_leases_that_are_renewed_together(sentence: str) -> None:
    room = Room()
    steps, want_renewals = TOGETHER[sentence]
    for step in steps:
        step(room)
    assert room.renewals == want_renewals
    assert room.held()
