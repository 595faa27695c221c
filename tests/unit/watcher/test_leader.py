"""Leader election with a virtual clock: what a candidate does with a Lease, and whole lives of two candidates."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import pytest

from tests.support.seeds import the_seed
from tjworker.base import Conflict, JsonDict, Transient
from tjworker.kube.client import KubeClient
from tjworker.scope import Scope
from watcher.leader import TOKEN, Election, Elector

WALL = datetime(2026, 1, 1, tzinfo=UTC)
WALL_MS = int(WALL.timestamp() * 1000)


def lease(holder: str, *, rv: str = "1", duration: int = 15, transitions: int = 3, token: int = 7) -> JsonDict:
    return {
        "metadata": {
            "name": "tj-watcher",
            "namespace": "default",
            "resourceVersion": rv,
            "uid": "u",
            "annotations": {TOKEN: str(token)},
        },
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": duration,
            "renewTime": "2026-01-01T00:00:00.000000Z",
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "leaseTransitions": transitions,
        },
    }


def candidate(name: str = "me") -> Election:
    return Election(name, "default", "tj-watcher", lease_duration_seconds=15)


@dataclass(frozen=True)
class Case:
    seen: list[tuple[float, JsonDict | None]]
    """(monotonic seconds, the Lease as read), oldest first."""
    want_leads: bool
    want_transitions: int | None = None


CASES: dict[str, Case] = {
    "Without a Lease the first one leads.": Case([(0, None)], True, 0),
    "A Lease that was given back is taken at once.": Case([(0, lease("", duration=1))], True, 4),
    "A Lease of another holder is not touched when first seen, however old its times look.": Case(
        [(0, lease("other"))], False
    ),
    "A Lease that has not changed for its duration is taken.": Case(
        [(0, lease("other")), (15.1, lease("other"))], True, 4
    ),
    "A longer lease than our own is honoured.": Case(
        [(0, lease("other", duration=60)), (30, lease("other", duration=60))], False
    ),
    "A shorter lease than our own changes nothing.": Case(
        [(0, lease("other", duration=1)), (5, lease("other", duration=1))], False
    ),
    "A Lease that is our own (a term that ended) is taken again without a transition.": Case(
        [(0, lease("me"))], True, 3
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bid(name: str) -> None:
    case, election, bid = CASES[name], candidate(), None
    for now, seen in case.seen:
        bid = election.bid(seen, now, WALL)
    assert (bid is not None) is case.want_leads
    if bid is not None:
        assert bid.lease["spec"]["holderIdentity"] == "me"
        assert bid.lease["spec"]["leaseTransitions"] == case.want_transitions
        last = case.seen[-1][1]
        assert bid.lease["metadata"].get("resourceVersion") == (last["metadata"]["resourceVersion"] if last else None)


TOKENS: dict[str, tuple[JsonDict | None, datetime, int]] = {
    "Without a Lease the token is the time.": (None, WALL, WALL_MS),
    "With a Lease it is at least one more than the last.": (lease("", token=WALL_MS + 5_000), WALL, WALL_MS + 5_001),
    "A clock that is far behind cannot make it go back.": (
        lease("", token=WALL_MS),
        WALL - timedelta(days=400),
        WALL_MS + 1,
    ),
    "A note that is no number counts as none.": (
        {"metadata": {"name": "x", "annotations": {TOKEN: "abc"}}, "spec": {}},
        WALL,
        WALL_MS,
    ),
}


@pytest.mark.parametrize("name", TOKENS)
def test_the_fencing_token_only_grows(name: str) -> None:
    held, wall, want = TOKENS[name]
    bid = candidate().bid(held, 0, wall)
    assert bid is not None
    assert bid.token == want
    assert bid.lease["metadata"]["annotations"][TOKEN] == str(want)


def test_a_standby_looks_again_when_the_lease_runs_out_and_not_at_its_next_turn() -> None:
    standby = candidate()
    assert standby.wait_seconds(0, 2) == 2, "nothing has been seen yet"
    standby.bid(lease("other"), 100, WALL)
    assert standby.wait_seconds(100, 2) == 2
    assert standby.wait_seconds(114.5, 2) == 0.5
    assert standby.wait_seconds(115, 2) == 2, "another was faster, or the API server is away"


def test_what_another_version_has_noted_on_the_lease_stays() -> None:
    """The next version may keep something there beside the token."""
    held = lease("me")
    held["metadata"]["annotations"]["elasticdeeplearning.ai/from-the-future"] = "x"
    held["metadata"]["labels"] = {"a": "b"}
    for written in (
        candidate("other").bid({**held, "spec": {**held["spec"], "holderIdentity": ""}}, 0, WALL),
        candidate().renewal(held, 0, WALL, 7),
    ):
        assert written is not None
        assert written.lease["metadata"]["annotations"]["elasticdeeplearning.ai/from-the-future"] == "x"
        assert {"a": "b"}.items() <= written.lease["metadata"]["labels"].items()


def test_a_renewal_keeps_token_transitions_and_the_time_of_acquisition() -> None:
    bid = candidate().renewal(lease("me", token=9), 5, WALL + timedelta(seconds=5), 9)
    assert bid is not None
    assert bid.token == 9
    assert bid.lease["spec"]["leaseTransitions"] == 3
    assert bid.lease["spec"]["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert bid.lease["spec"]["renewTime"] == "2026-01-01T00:00:05.000000Z"


@pytest.mark.parametrize(("held", "token"), [(None, 9), (lease("other", token=9), 9), (lease("me", token=10), 9)])
def test_a_lease_that_is_not_of_this_term_is_neither_renewed_nor_given_back(held: JsonDict | None, token: int) -> None:
    assert candidate().renewal(held, 0, WALL, token) is None
    assert candidate().release(held, WALL, token) is None


class Leases:
    """The API server's part: one Lease with optimistic locking; `away` answers nothing."""

    def __init__(self) -> None:
        self.lease: JsonDict | None = None
        self.rv = 0
        self.away = False

    def get(self, resource: str, namespace: str, name: str) -> JsonDict | None:
        if self.away:
            raise Transient("connection refused")
        return deepcopy(self.lease)

    def create(self, resource: str, namespace: str, body: Mapping[str, Any]) -> JsonDict:
        if self.lease is not None:
            raise Conflict("exists", reason="AlreadyExists")
        return self._put(body)

    def update(self, resource: str, namespace: str, name: str, body: Mapping[str, Any]) -> JsonDict:
        if self.away:
            raise Transient("connection refused")
        if self.lease is None or body["metadata"].get("resourceVersion") != self.lease["metadata"]["resourceVersion"]:
            raise Conflict("changed", reason="Conflict")
        return self._put(body)

    def _put(self, body: Mapping[str, Any]) -> JsonDict:
        self.rv += 1
        self.lease = deepcopy(dict(body))
        self.lease["metadata"]["resourceVersion"] = str(self.rv)
        return self.lease


class Life:
    """One watcher's leadership in virtual time: the same decisions as Elector.keep, one at a time."""

    def __init__(self, name: str, leases: Leases, *, skew_seconds: float = 0) -> None:
        self.now = 0.0
        self.skew = timedelta(seconds=skew_seconds)
        self.elector = Elector(
            cast(KubeClient, leases),
            candidate(name),
            stopped=threading.Event(),
            renew_seconds=5,
            now=lambda: self.now,
            wall=lambda: WALL + self.skew + timedelta(seconds=self.now),
        )
        self.token: int | None = None


def test_with_clocks_ten_minutes_apart_each_leader_has_a_greater_token_than_the_one_before() -> None:
    seed = the_seed()
    rng = random.Random(seed)
    leases = Leases()
    lives = [Life("a", leases, skew_seconds=-300), Life("b", leases, skew_seconds=300)]
    tokens: list[int] = []
    for second in range(2000):
        leases.away = rng.random() < 0.02
        for life in lives:
            life.now = float(second)
            if life.token is None:
                if rng.random() < 0.5 and (token := life.elector.try_acquire()) is not None:
                    life.token = token
                    tokens.append(token)
            elif rng.random() < 0.02:
                life.token = None  # it dies, or its term ends
            elif rng.random() < 0.01:
                life.elector.release(life.token)
                life.token = None
    assert len(tokens) > 10, f"seed {seed}"
    assert all(earlier < later for earlier, later in pairwise(tokens)), f"seed {seed}"


def test_a_holder_whose_token_the_store_refuses_leaps_past_the_newer_one_within_20_terms() -> None:
    newer, elector = WALL_MS + 7 * 24 * 3_600_000, Life("a", Leases()).elector
    tokens: list[int] = []
    while len(tokens) < 20 and max(tokens, default=0) <= newer:
        token = elector.try_acquire()
        assert token is not None
        tokens.append(token)
        elector.leap_ahead(token)
    assert newer < tokens[-1] < 2**53, "Lua counts in doubles"


def test_a_standby_takes_over_within_20_seconds_of_the_leaders_death() -> None:
    leases = Leases()
    leader, standby = Life("a", leases), Life("b", leases)
    assert leader.elector.try_acquire() is not None
    taken_at = None
    for tenth in range(400):  # tries every 2.4 s at most
        standby.now = tenth / 10
        if tenth % 24 == 0 and standby.elector.try_acquire() is not None:
            taken_at = standby.now
            break
    assert taken_at is not None
    assert taken_at < 20


def test_a_standby_takes_over_at_once_when_the_leader_leaves_in_order() -> None:
    leases = Leases()
    leader, standby = Life("a", leases), Life("b", leases)
    token = leader.elector.try_acquire()
    assert token is not None
    assert standby.elector.try_acquire() is None
    leader.elector.release(token)
    later = standby.elector.try_acquire()
    assert later is not None
    assert later > token


class Steps(threading.Event):
    """An event whose waiting moves a clock."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self._life = life

    def wait(self, timeout: float | None = None) -> bool:
        self._life.now += timeout or 0
        assert self._life.now < 1000, "the leadership does not end"
        return self.is_set()


def test_a_leader_that_cannot_renew_stops_before_another_may_start() -> None:
    leases = Leases()
    leader = Life("a", leases)
    token = leader.elector.try_acquire()
    assert token is not None
    leases.away = True
    why = leader.elector.keep(token, Steps(leader))
    assert "could not be renewed" in why
    assert leader.now < 15


def test_a_leader_whose_lease_was_taken_stops_at_its_next_renewal() -> None:
    leases = Leases()
    leader = Life("a", leases)
    token = leader.elector.try_acquire()
    assert token is not None
    leases.lease = lease("other", rv="9")
    assert "another watcher" in leader.elector.keep(token, Steps(leader))


SERVES: dict[str, tuple[Scope, str]] = {
    "Both serve the same: a standby.": (Scope(excluded=("team-a",)), ""),
    "The leader is another operator's: the second would wait for ever.": (
        Scope(only=("team-a",)),
        ", which serves every namespace but team-a; this one serves team-a (each operator needs a Lease of its own)",
    ),
}


@pytest.mark.parametrize(("scope", "want"), SERVES.values(), ids=SERVES)
def test_a_lease_tells_what_its_leader_serves(scope: Scope, want: str) -> None:
    leader = Election("one", "ns", "tj-watcher", lease_duration_seconds=15, scope=Scope(excluded=("team-a",)))
    bid = leader.bid(None, 0, WALL)
    assert bid is not None
    standby = Election("two", "ns", "tj-watcher", lease_duration_seconds=15, scope=scope)
    assert standby.describe_other_scope(bid.lease) == want
