"""What somebody else can write into a real Redis to hold a key up for ever, and how long it holds it up.

Each is tried: the key is not served while it stands there, and is served once `repair`, which the leading watcher calls
with each full resync, has been by and what it leaves has run out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import redis

from tests.conftest import RealRedis
from tests.integration.store.driver import JOB, A, B, Drive, raised
from tests.integration.store.worlds import RedisWorld
from tjworker.api.resources import PODS
from tjworker.app import make_app
from tjworker.base import JobKey, Terminal
from tjworker.publisher import Publisher
from tjworker.settings import Settings
from tjworker.store.keys import FACT_TTL_SECONDS, KEYS
from tjworker.store.work_queue import AtOnce, WithBackoff

FAR = 10**12
LEASE_SECONDS = 30


class Spoilt(Drive):
    """A job that has run, and the store's Redis in somebody else's hands."""

    def __init__(self, real_redis: RealRedis) -> None:
        super().__init__(world := RedisWorld(real_redis))
        self.projection, self.queue = world.bare.projection, world.bare.queue  # no script knows of seals
        self.redis: redis.Redis = real_redis.client()
        self.prefix = real_redis.prefix
        self.job(10)
        self.pod(20)
        assert self.take()
        self.finish(JOB)

    def name(self, rest: str) -> str:
        return f"{self.prefix}:{rest}"

    def repair(self, *, everything: bool = True) -> int:
        repaired: int = self.world.store.maintenance.repair(lease_seconds=LEASE_SECONDS, everything=everything)
        return repaired

    def serves(self) -> bool:
        """Does A come to a pass that may decide, after a resync of every job?"""
        self.resync(everything=True)
        for _ in range(3):
            served = self.turn(B)
            if served == A:
                view = self.view()
                fresh = all(view.seen.get(resource, 0) >= rv for resource, rv in view.min_observed.items())
                self.finish()
                return fresh and view.job is not None
            if served:
                self.finish(key=served)
        return False


@dataclass(frozen=True)
class Case:
    spoil: Callable[[Spoilt], object]
    holds_seconds: float
    """After `repair` it holds the key up for so long at most."""


def dead(d: Spoilt) -> None:
    d.redis.zadd(d.name("queue:running"), {A: FAR})
    d.redis.zadd(d.name("queue:dirty"), {A: FAR})


FOR_EVER = {
    "a lease without an end": Case(lambda d: d.redis.set(d.name(f"lock:{A}"), "9 nobody"), LEASE_SECONDS),
    "a lease of ten years": Case(lambda d: d.redis.set(d.name(f"lock:{A}"), "9 nobody", ex=10**8), LEASE_SECONDS),
    "own writes from the future, without an end": Case(
        lambda d: d.redis.hset(d.name(f"min_observed:{A}"), PODS, FAR), FACT_TTL_SECONDS
    ),
    "an entry among the running that no lease is as long as": Case(dead, LEASE_SECONDS + 1),
    "queued in the future, and in no line": Case(lambda d: d.redis.zadd(d.name("queue:dirty"), {A: FAR}), 32),
    "no longer among the unfinished": Case(lambda d: d.redis.delete(d.name("jobs:unfinished")), 0),
}


@pytest.mark.parametrize("case", FOR_EVER.values(), ids=list(FOR_EVER))
def test_what_would_hold_a_key_up_for_ever_holds_it_up_until_the_next_repair(case: Case, real_redis: RealRedis) -> None:
    d = Spoilt(real_redis)
    assert d.serves(), "as it is"
    case.spoil(d)
    assert not d.serves()
    d.wait(2 * FACT_TTL_SECONDS)
    case.spoil(d)
    assert not d.serves(), "it does not end by itself while he is there"
    assert d.repair()
    d.wait(case.holds_seconds + 0.1)
    d.resync(everything=True)
    assert d.serves()
    d.repair()
    assert d.repair() == 0, "and finds nothing of its own to put right"


def test_deaths_with_a_wait_longer_than_any_after_deaths_hold_nothing_up(real_redis: RealRedis) -> None:
    d = Spoilt(real_redis)
    d.redis.hset(d.name("deaths"), A, 7)
    d.redis.zadd(d.name("queue:delayed"), {A: FAR})
    assert d.serves()


def test_a_namespace_that_is_said_to_have_many_keys_in_line_waits_for_as_many_rounds_as_there_are_keys(
    real_redis: RealRedis,
) -> None:
    d = Spoilt(real_redis)
    d.redis.hset(d.name("queue:in-line"), "default", FAR)
    others = others_in_line(d)
    d.add()
    assert A in served_beside(d, others)
    assert d.repair(everything=False)
    waiting: list[object] = list(d.redis.hvals(d.name("queue:in-line")))
    assert sum(int(str(keys, "ascii")) for keys in waiting if isinstance(keys, bytes)) == d.redis.zcard(
        d.name("queue:line")
    )


def test_a_turn_behind_all_others_ends_with_the_next_repair(real_redis: RealRedis) -> None:
    d = Spoilt(real_redis)
    others = others_in_line(d)
    for turn in "1e300", "1000000000000":
        d.add()
        d.redis.zadd(d.name("queue:line"), {A: turn})
        assert A not in served_beside(d, others)
        d.repair(everything=False)
        assert A in served_beside(d, others)
        d.finish()


def others_in_line(d: Spoilt) -> list[JobKey]:
    others = [JobKey(B.replace("default", f"ns-{number}")) for number in range(9)]
    d.add(*others)
    return others


def served_beside(d: Spoilt, others: list[JobKey]) -> list[JobKey | None]:
    """Who is served in a dozen rounds while the others always have work."""
    served = []
    for _ in range(12 * len(others)):
        served.append(d.turn(others[0]))
        if served[-1] not in (None, A):
            d.finish(key=served[-1], next_pass=AtOnce())
    return served


def test_made_up_names_of_unfinished_jobs_cost_one_look(real_redis: RealRedis) -> None:
    d = Spoilt(real_redis)
    d.redis.sadd(d.name("jobs:unfinished"), "made/up/key")
    assert "made/up/key" not in d.resync(everything=True)
    assert not d.redis.sismember(d.name("jobs:unfinished"), "made/up/key")


# -- text where a number belongs -------------------------------------------------------------------
NO_NUMBERS: tuple[bytes, ...] = (b"", b"x", b"inf", b"nan", b"-1e300", b"9" * 400, b"1.5")
NUMBERS = {
    "writer token": ("writer", "token"),
    "writer seq": ("writer", "seq"),
    "progress": ("progress", PODS),
    "seen": (f"seen:{A}", PODS),
    "gone": (f"gone:{A}", "job"),
    "min_observed": (f"min_observed:{A}", PODS),
    "deaths": ("deaths", A),
    "failures": ("failures", A),
    "in-line": ("queue:in-line", "default"),
    "version of a job": (f"job:{A}", "job"),
    "version of a pod": (f"job:{A}", f"{PODS}/a-0"),
    "missing": ("queue:missing", ""),
    "turn": ("queue:turn", ""),
    "fence": ("fence", ""),
    "lock": (f"lock:{A}", ""),
}


@pytest.mark.parametrize("where", NUMBERS.values(), ids=list(NUMBERS))
def test_text_where_a_number_belongs_stops_no_script(where: tuple[str, str], real_redis: RealRedis) -> None:
    d = Spoilt(real_redis)
    key, field = where
    for rv, text in enumerate(NO_NUMBERS, start=100):
        for step in each_script(d, rv):
            if field:
                d.redis.hset(d.name(key), field, text)
            else:
                d.redis.set(d.name(key), text)
            assert raised(step) in ("", "Lost", "Fenced", "KeyError"), text
        if where == ("writer", "token"):
            d.redis.delete(d.name("writer"))  # 1.5 is a newer writer's
        d.redis.delete(d.name(f"lock:{A}"))  # it may hold the key up, as a lease does
        d.wait(LEASE_SECONDS + 1)
        d.projection.lead(1)
        d.projection.mark_synced(1)
        d.job(rv, record=b"written over it %d" % rv)
        d.progress(pods=10**6)
        assert d.serves(), text


def each_script(d: Spoilt, rv: int) -> list[Callable[[], object]]:
    return [
        lambda: d.resync(everything=True),
        d.turn,
        d.renew,
        lambda: d.min_observed((PODS, rv)),
        lambda: d.finish((PODS, rv), next_pass=WithBackoff()),
        lambda: d.later(0),
        d.due,
        lambda: d.job(rv),
        lambda: d.pod(rv),
        lambda: d.no_pod(rv),
        d.stats,
        d.repair,
        lambda: d.projection.apply_nodes(1, {"n": b"1"}),
        lambda: d.projection.mark_synced(1),
        lambda: d.projection.lead(1),
    ]


# -- keys of another type --------------------------------------------------------------------------
def test_a_key_of_another_type_is_taken_out(real_redis: RealRedis) -> None:
    d = Spoilt(real_redis)
    for key in KEYS:
        if key.name == "once":
            continue  # of any type it counts for nothing after its period
        stored = key.of(d.prefix, "" if key.is_one else A)
        d.redis.delete(stored)
        d.redis.set(stored, "x") if key.type != "string" else d.redis.hset(stored, "x", "y")
        d.repair()
        assert not d.redis.exists(stored), key.name
    d.projection.lead(1)
    d.projection.mark_synced(1)
    d.job(50)
    d.pod(60)
    assert d.serves()


def test_in_one_jobs_place_it_stops_the_watcher_until_then(real_redis: RealRedis) -> None:
    d = Spoilt(real_redis)
    d.redis.set(d.name(f"news:{A}"), "x")
    assert d.resync(everything=True) == [A]
    assert d.take()
    d.redis.set(d.name(f"news:{A}"), "x")
    assert raised(lambda: d.job(30)) == Terminal.__name__
    assert d.repair()
    assert raised(lambda: d.job(30)) == ""


# -- where tasks go --------------------------------------------------------------------------------
@pytest.mark.parametrize("queue", ["", ".periodic"])
def test_who_has_just_started_binds_its_queues_again(queue: str, real_redis: RealRedis) -> None:
    """beat's and Flower's user may write them, too."""
    d = Spoilt(real_redis)
    binding = f"_kombu.binding.{d.prefix}{queue}"
    d.redis.lpush(binding, "x")
    with make_app(Settings(redis_url=real_redis.url, key_prefix=d.prefix)) as app:

        def binds() -> None:
            with app.connection_for_write() as connection:
                app.amqp.queues[f"{d.prefix}{queue}"].bind(connection.default_channel).declare()

        assert raised(binds) == "ResponseError"
        assert d.repair(everything=False)
        assert raised(binds) == ""
        d.redis.delete(binding)
        Publisher(Settings(redis_url=real_redis.url, key_prefix=d.prefix)).publish([A])
        assert d.redis.llen(d.prefix) == 1
    for key in d.redis.scan_iter(f"_kombu.binding.{d.prefix}*"):
        d.redis.delete(key)
