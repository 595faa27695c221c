"""How long the watcher waits for what, and what it keeps meanwhile: Redis that is away, repairs, a leadership and its
Lease, and the pods that a node's change wakes. Each in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tests.unit.watcher.test_leader import lease
from tjworker.api.resources import PODS
from tjworker.base import JobKey, OperatorError, Transient
from tjworker.settings import Settings
from tjworker.store.projection import Change
from watcher.leader import FIRST_LEAP, LONGEST_LEAP, RETRY_SECONDS, Election, Tenure
from watcher.node_wakeups import NodeWakeups
from watcher.projection import Projected
from watcher.redis_retry import RedisRetry
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


# -- Redis -----------------------------------------------------------------------------------------
def retry(clock: Clock) -> RedisRetry:
    return RedisRetry(cast(Any, clock), clock.now, cast(Any, SimpleNamespace(uniform=lambda least, most: most)))


def failing(clock: Clock, errors: list[OperatorError], seen: list[tuple[float, bool]], redis: RedisRetry) -> Any:
    def call() -> str:
        seen.append((redis.tried_at, redis.away))
        clock.seconds += 0.5
        if errors:
            raise errors.pop(0)
        return "answer"

    return call


def test_waits_for_redis_double_from_a_fifth_of_a_second_to_one_second() -> None:
    clock, seen = Clock(), list[tuple[float, bool]]()
    redis = retry(clock)
    errors: list[OperatorError] = [Transient("away") for _ in range(8)]
    with capture_logs() as lines:
        assert redis(failing(clock, errors, seen, redis)) == "answer"
    assert clock.waits == [0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert [line["log_level"] for line in lines] == ["warning", "info"]
    assert lines[1]["away_seconds"] == pytest.approx(sum(clock.waits) + 8 * 0.5, abs=0.1)
    assert [away for _, away in seen] == [False] + [True] * 8
    assert not redis.away
    ages = [at for at, _ in seen]
    assert ages == sorted(set(ages)), "each try is a sign of life"


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
        one.refused()
    assert [(at + 995, everything) for at, everything in made] == [(0, True), (30, True), (60, True)]


# -- the Lease -------------------------------------------------------------------------------------
WALL = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def election(duration: float = 15) -> Election:
    return Election("me", "tj-system", "tj-watcher", lease_duration_seconds=duration)


@pytest.mark.parametrize("field", ["holderIdentity", "renewTime", "leaseTransitions", "resourceVersion"])
def test_any_change_of_a_lease_is_a_sign_of_its_holder(field: str) -> None:
    one, held = election(), lease("other")
    one.bid(held, 100.0, WALL)
    moved = {**held, "spec": dict(held["spec"]), "metadata": dict(held["metadata"])}
    (moved["metadata"] if field == "resourceVersion" else moved["spec"])[field] = 9 if "lease" in field else "another"
    one.bid(moved, 110.0, WALL)
    assert one.bid(moved, 124.9, WALL) is None
    assert one.bid(moved, 125.0, WALL) is not None


def test_each_refusal_of_the_store_leaps_twice_as_far_up_to_a_day() -> None:
    one, last = election(), 10**15
    leaps = []
    for _ in range(14):
        one.fenced(last)
        bid = one.bid(None, 0.0, WALL)
        assert bid is not None
        leaps.append(bid.token - last)
        last = bid.token
    assert leaps == [min(LONGEST_LEAP, FIRST_LEAP * 2**n) for n in range(14)]
    one.fenced(5)
    again = one.bid(None, 0.0, WALL)
    assert again is not None
    assert again.token > last, "never back"


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


# -- nodes and the pods on them --------------------------------------------------------------------
def placed(name: str, node: str, job: str = "a") -> Projected:
    return Projected(Change(JobKey(f"x/default/{job}"), PODS, name, 1, b"{}"), node=node)


def wakeups(finished: set[str] | None = None, stored: Callable[[list[str]], dict[str, bytes]] | None = None) -> Any:
    projection = SimpleNamespace(nodes=stored or (lambda names: {}))
    return NodeWakeups(cast(Any, projection), cast(Any, lambda call: call()), cast(Any, finished or set()))


MOVES: dict[str, tuple[list[tuple[Projected, bool]], list[str]]] = {
    "a pod on the node": ([(placed("p", "node-a"), True)], ["x/default/a"]),
    "a pod on another": ([(placed("p", "node-b"), True)], []),
    "a pod that waits for a node": ([(placed("p", ""), True)], []),
    "one that has moved away": ([(placed("p", "node-a"), True), (placed("p", "node-b"), True)], []),
    "one that has no node any more": ([(placed("p", "node-a"), True), (placed("p", ""), True)], []),
    "two of one job": ([(placed("p", "node-a"), True), (placed("q", "node-a"), True)], ["x/default/a"]),
    "pods of one name of two jobs": (
        [(placed("p", "node-a", "b"), True), (placed("p", "node-a", "a"), True)],
        ["x/default/a", "x/default/b"],
    ),
}


@pytest.mark.parametrize("what", MOVES)
def test_whom_a_node_that_is_gone_wakes(what: str) -> None:
    moves, want = MOVES[what]
    nodes = wakeups()
    for pod, counts in moves:
        nodes.take_pod(pod, counts=counts)
    nodes.touch(["node-a"])
    assert nodes.take_jobs() == want
    assert nodes.take_jobs() == [], "once"
    assert nodes.counts["placed_pods"] == len({(p.change.key, p.change.name) for p, c in moves if p.node and c}) - (
        what in ("one that is gone", "one that has no node any more")
    )
