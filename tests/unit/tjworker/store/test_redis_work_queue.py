"""What only the work queue in Redis can show: lost tasks, the broker, parallel workers, prefixes, forgotten scripts."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from benchmarks.support.valkey import Valkey
from tests.conftest import RealRedis
from tests.integration.store.driver import A, B, a_job
from tests.support.queueing import acquire_one, finish_one
from tjworker.api.resources import PODS
from tjworker.base import KEYS_PER_TASK, Fenced, JobKey, Terminal
from tjworker.store.connect import client, open_store
from tjworker.store.work_queue import ON_NEWS, AtOnce, OnNews, PassEnding, Written


def test_a_lost_task_is_not_looked_for_while_the_broker_holds_one_for_all_that_queue(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.queue.add([A, B])
    with real_redis.client() as redis:
        redis.lpush(real_redis.prefix, b"message")
        assert store.queue.resync(lost_after_seconds=0, everything=False) == []
        redis.rpop(real_redis.prefix)
        assert store.queue.resync(lost_after_seconds=0, everything=False) == [A, B]


def test_as_many_keys_as_lack_a_task_get_one_and_the_oldest_first(real_redis: RealRedis) -> None:
    """One lost task in a long queue must not double the queue."""
    store = open_store(real_redis.url, real_redis.prefix)
    keys = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/waits-{n:02}") for n in range(5 * KEYS_PER_TASK)]
    store.queue.add(keys)
    with real_redis.client() as redis:
        now = redis.time()[0]
        for age, key in enumerate(reversed(keys)):
            redis.zadd(f"{real_redis.prefix}:queue:dirty", {key: now - 40 - age})
        redis.lpush(real_redis.prefix, *["message"] * 3)
    assert store.queue.resync(lost_after_seconds=30, everything=False) == keys[: 2 * KEYS_PER_TASK]


def test_passes_end_together_after_redis_forgot_the_scripts(own_valkey: Valkey) -> None:
    store = open_store(own_valkey.url, "t")
    store.queue.add([A, B])
    taken = store.queue.acquire_views(A, "worker", 30, KEYS_PER_TASK)
    client(own_valkey.url).script_flush()
    done = store.queue.finish_all(
        [PassEnding(claim, next_pass=AtOnce() if claim.key == B else ON_NEWS) for claim, _ in taken.views]
    )
    assert [each.publish for each in done] == [False, True]
    assert store.queue.stats().running == 0


@pytest.mark.parametrize("others", [[], [B]], ids=["taken alone", "taken with another"])
def test_a_record_that_cannot_be_read_is_the_fault_of_its_own_key(others: list[JobKey], real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.projection.lead(1)
    store.queue.add([A, *others])
    with real_redis.client() as redis:
        redis.set(f"{real_redis.prefix}:seen:{A}", "somebody else's")
    taken = store.queue.acquire_views(A, "worker", 30, KEYS_PER_TASK)
    (of_a, *of_others) = [view for _, view in taken.views]
    assert isinstance(of_a.fault, Terminal)
    assert "WRONGTYPE" in of_a.fault.message
    assert [view.fault for view in of_others] == [None for _ in others]
    done = store.queue.finish_all([PassEnding(claim, next_pass=OnNews(300)) for claim, _ in taken.views])
    assert [each.error for each in done] == [None for _ in done], "it is given back like any other"


@pytest.mark.parametrize("others", [[], [B]], ids=["taken alone", "taken with another"])
def test_where_no_view_can_be_read_no_key_waits_for_its_lease(others: list[JobKey], real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.queue.add([A, *others])
    with real_redis.client() as redis:
        redis.set(f"{real_redis.prefix}:progress", "somebody else's")
        with pytest.raises(Terminal):
            store.queue.acquire_views(A, "worker", 30, KEYS_PER_TASK)
        assert redis.hlen(f"{real_redis.prefix}:deaths") == 0
    stats = store.queue.stats()
    assert (stats.running, stats.delayed, stats.failing) == (0, 1 + len(others), 1 + len(others))


def test_an_end_that_redis_refuses_hides_no_other(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.queue.add([A, B])
    (a, _), (b, _) = store.queue.acquire_views(A, "worker", 30, KEYS_PER_TASK).views
    with real_redis.client() as redis:
        redis.set(f"{real_redis.prefix}:min_observed:{A}", "somebody else's")
    refused = PassEnding(a, Written([(PODS, 7)]))
    of_a, of_b = store.queue.finish_all([refused, PassEnding(b, next_pass=AtOnce())])
    assert isinstance(of_a.error, Terminal)
    assert (of_b.error, of_b.publish) == (None, True)
    with pytest.raises(Terminal):
        store.queue.finish_all([refused])


def test_a_key_of_a_dead_holder_is_counted_once(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.queue.add([A, B])
    assert acquire_one(store.queue, A, "dies", 0.001)
    with real_redis.client() as redis:
        redis.lpush(real_redis.prefix, b"the task of B")
        while redis.exists(f"{real_redis.prefix}:lock:{A}"):
            pass
    assert store.queue.resync(lost_after_seconds=0, everything=False) == [A]


def test_a_key_never_has_two_holders_whatever_the_threads_do(redis_url: str, real_redis: RealRedis) -> None:
    keys = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/job-{n}") for n in range(5)]
    inside: Counter[JobKey] = Counter()
    most: Counter[JobKey] = Counter()
    guard = threading.Lock()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            store = open_store(redis_url, real_redis.prefix)
            for turn in range(150):
                key = keys[(number + turn) % len(keys)]
                store.queue.add([key])
                claim = acquire_one(store.queue, key, f"worker-{number}", 30)
                if claim is None:
                    continue
                key = claim.key
                with guard:
                    inside[key] += 1
                    most[key] = max(most[key], inside[key])
                store.queue.renew(claim, 30)
                with guard:
                    inside[key] -= 1
                finish_one(store.queue, claim, next_pass=ON_NEWS if turn % 3 else AtOnce())
        except BaseException as error:  # noqa: BLE001  reported below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert set(most.values()) == {1}


def test_two_operators_with_two_prefixes_share_nothing(real_redis: RealRedis) -> None:
    one, two = (open_store(real_redis.url, f"{real_redis.prefix}:{n}") for n in "ab")
    one.projection.lead(5)
    two.projection.lead(1)
    assert one.queue.add([A]) == two.queue.add([A]) == [A]
    assert acquire_one(one.queue, A, "w", 30)
    assert acquire_one(two.queue, A, "w", 30)
    one.projection.lead(6)
    two.projection.apply(1, [a_job(5)])
    with pytest.raises(Fenced):
        one.projection.apply(5, [])
