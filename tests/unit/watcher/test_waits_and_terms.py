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

from tests.unit.watcher.projection.objects import NODE, changed
from tests.unit.watcher.test_leader import lease
from tjworker.api.resources import NODES, PODS
from tjworker.base import JobKey, OperatorError, Terminal, Transient
from tjworker.settings import Settings
from tjworker.store.projection import Change
from watcher.leader import FIRST_LEAP, LONGEST_LEAP, RETRY_SECONDS, TOKEN, Election, Tenure
from watcher.node_wakeups import NodeWakeups
from watcher.projection import Projected, project_node
from watcher.redis_retry import RedisRetry, Stopped
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


def test_the_next_outage_begins_with_the_shortest_wait_again() -> None:
    clock = Clock()
    redis = retry(clock)
    for _ in range(2):
        redis(failing(clock, [Transient("away"), Transient("away")], [], redis))
    assert clock.waits == [0.2, 0.4] * 2


def test_only_a_redis_that_answers_and_refuses_is_told_to_who_repairs() -> None:
    clock, told = Clock(), list[str]()
    redis = retry(clock)
    redis.on_refused = lambda: told.append("refused")
    redis(failing(clock, [Transient("away"), Terminal("WRONGTYPE"), Transient("away")], [], redis))
    assert told == ["refused"]


def test_a_term_that_ends_ends_the_wait() -> None:
    clock = Clock()
    clock.stops_after = 2
    redis = retry(clock)
    with pytest.raises(Stopped):
        redis(failing(clock, [Transient("away")] * 9, [], redis))
    assert redis.away
    assert len(clock.waits) == 2


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


def test_after_a_pause_one_look_is_enough_and_the_next_comes_a_period_later() -> None:
    clock = Clock()
    one, made = repairs(clock)
    clock.seconds += 200
    assert one.step() is True
    assert one.step() is None
    clock.seconds += 29
    assert one.step() is None
    clock.seconds += 1
    assert one.step() is False
    clock.seconds += 60
    assert one.step() is True, "a full resync after the last one"
    assert made == [(200, True), (230, False), (290, True)]


def test_a_refusal_is_looked_into_at_once_and_not_more_often_than_a_resync() -> None:
    clock = Clock()
    clock.seconds = 5.0  # a machine that has just started
    one, made = repairs(clock)
    for seconds in (0, 29, 1, 29, 1):
        clock.seconds += seconds
        one.repair_all()
    assert [(at + 995, everything) for at, everything in made] == [(0, True), (30, True), (60, True)]


@pytest.mark.parametrize("found", [0, 3])
def test_what_was_put_right_is_said(found: int) -> None:
    clock = Clock()
    one, _ = repairs(clock, found)
    clock.seconds += 30
    with capture_logs() as lines:
        one.step()
    assert [line["entries"] for line in lines] == ([found] if found else [])


# -- the Lease -------------------------------------------------------------------------------------
WALL = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)


def election(duration: float = 15) -> Election:
    return Election("me", "tj-system", "tj-watcher", lease_duration_seconds=duration)


@pytest.mark.parametrize(("age", "free"), [(0.0, False), (14.9, False), (15.0, True), (60.0, True)])
def test_a_lease_is_free_when_it_has_not_changed_for_its_duration(age: float, free: bool) -> None:
    one = election()
    assert one.bid(lease("other"), 100.0, WALL) is None
    assert (one.bid(lease("other"), 100.0 + age, WALL) is not None) is free


@pytest.mark.parametrize("field", ["holderIdentity", "renewTime", "leaseTransitions", "resourceVersion"])
def test_any_change_of_a_lease_is_a_sign_of_its_holder(field: str) -> None:
    one, held = election(), lease("other")
    one.bid(held, 100.0, WALL)
    moved = {**held, "spec": dict(held["spec"]), "metadata": dict(held["metadata"])}
    (moved["metadata"] if field == "resourceVersion" else moved["spec"])[field] = 9 if "lease" in field else "another"
    one.bid(moved, 110.0, WALL)
    assert one.bid(moved, 124.9, WALL) is None
    assert one.bid(moved, 125.0, WALL) is not None


def test_a_lease_keeps_what_others_wrote_into_it() -> None:
    held = lease("", token=7)
    held["metadata"] |= {
        "labels": {"team": "a"},
        "uid": "u-1",
        "annotations": {**held["metadata"]["annotations"], "note": "x"},
    }
    one = election()
    bid = one.bid(held, 100.0, WALL)
    assert bid is not None
    kept = bid.lease["metadata"]
    assert (kept["labels"]["team"], kept["uid"], kept["annotations"]["note"]) == ("a", "u-1", "x")
    assert kept["annotations"][TOKEN] == str(bid.token)
    assert kept["resourceVersion"] == held["metadata"]["resourceVersion"]
    renewal = one.renewal(bid.lease, 105.0, WALL, bid.token)
    assert renewal is not None
    assert renewal.lease["metadata"]["labels"]["team"] == "a"
    given = one.release(bid.lease, WALL, bid.token)
    assert given is not None
    assert (given["spec"]["holderIdentity"], given["spec"]["leaseDurationSeconds"]) == ("", 1)
    assert given["metadata"]["annotations"]["note"] == "x", "and its token, so that the next one is greater"
    assert given["metadata"]["annotations"][TOKEN] == str(bid.token)


def test_what_a_lease_says() -> None:
    bid = election(12.4).bid(None, 0.0, WALL)
    assert bid is not None
    assert bid.create
    assert bid.lease["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 12,
        "renewTime": "2026-01-01T12:00:00.123456Z",
        "acquireTime": "2026-01-01T12:00:00.123456Z",
        "leaseTransitions": 0,
    }
    short = election(0.2).bid(None, 0.0, WALL)
    assert short is not None
    assert short.lease["spec"]["leaseDurationSeconds"] == 1, "the API server takes none of 0"


@pytest.mark.parametrize(("holder", "want"), [("me", 3), ("other", 4), ("", 4)])
def test_a_change_of_holder_is_counted(holder: str, want: int) -> None:
    one, held = election(), lease(holder, transitions=3)
    one.bid(held, 0.0, WALL)
    bid = one.bid(held, 100.0, WALL)
    assert bid is not None
    assert bid.lease["spec"]["leaseTransitions"] == want


def test_each_refusal_of_the_store_leaps_twice_as_far_up_to_a_day() -> None:
    one, last = election(), 10**15
    leaps = []
    for _ in range(14):
        one.leap_ahead(last)
        bid = one.bid(None, 0.0, WALL)
        assert bid is not None
        leaps.append(bid.token - last)
        last = bid.token
    assert leaps == [min(LONGEST_LEAP, FIRST_LEAP * 2**n) for n in range(14)]
    one.leap_ahead(5)
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


def test_who_renews_more_often_than_it_retries_goes_on_as_often() -> None:
    one = Tenure(lambda: (_ for _ in ()).throw(Transient("away")), lambda: 0.0, renew_seconds=0.5, deadline_seconds=10)
    one.renew()
    assert one.wait_seconds == 0.5


@pytest.mark.parametrize(("silent", "over"), [(9.0, False), (10.0, False), (10.1, True)])
def test_the_deadline_counts_from_the_last_renewal(silent: float, over: bool) -> None:
    clock = Clock()
    one = tenure(clock, [True, None])
    clock.seconds += 8
    assert one.renew() == ""
    clock.seconds += silent
    assert bool(one.renew()) is over


def test_a_lease_that_another_has_ends_it_at_once() -> None:
    assert tenure(Clock(), [False]).renew() == "another watcher has taken the lease"


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
    "one that is gone": ([(placed("p", "node-a"), True), (placed("p", "node-a"), False)], []),
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


def test_a_finished_job_is_woken_by_none() -> None:
    nodes = wakeups({"x/default/a"})
    nodes.take_pod(placed("p", "node-a"), counts=True)
    nodes.touch(["node-a"])
    assert nodes.take_jobs() == []


def test_what_an_earlier_watcher_left_of_a_node_is_asked_for_once() -> None:
    """And not of a node that this term has shown already: it knows more."""
    asked: list[list[str]] = []
    sound = project_node(NODE)
    ill = project_node(changed("status.conditions.0.status", "False"))

    def stored(names: list[str]) -> dict[str, bytes]:
        asked.append(names)
        return {"node-a": cast(bytes, sound.change.record)}

    from watcher.event_queue import WatchEvents

    nodes = wakeups(stored=stored)
    nodes.take_pod(placed("p", "node-a"), counts=True)
    for batch, wakes in ((ill, True), (ill, False), (sound, True)):
        nodes.recall([WatchEvents(NODES, (batch,))])
        nodes.take_node(batch)
        assert bool(nodes.take_jobs()) is wakes
    assert asked == [["node-a"]]
