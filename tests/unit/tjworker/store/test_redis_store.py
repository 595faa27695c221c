"""What only the real store can show: memory, a Redis that comes back older, parallel workers, lost tasks and the broker."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import orjson
import pytest

from tests.conftest import RealRedis
from tests.contract.store_driver import A, B, a_job, a_pod
from tjworker.api.observed import ContainerRecord, PodRecord
from tjworker.base import Fenced, JobKey
from tjworker.store.connect import client, open_store
from tjworker.store.port import Change, Lost, Written

LIVE_BYTES = 20 * 1024
FINISHED_BYTES = 1024


def used_bytes(real_redis: RealRedis) -> int:
    with real_redis.client() as redis:
        return sum(redis.memory_usage(key, samples=0) for key in real_redis.all_keys())


def a_full_pod(index: int) -> bytes:
    """About what a pod of a job looks like in the projection when everything that it may say is said."""
    labels = {f"label-{n}": "x" * 40 for n in range(8)}
    container = ContainerRecord(
        "aitj-trainer",
        "terminated",
        "Error",
        "m" * 200,
        137,
        9,
        2,
        False,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z",
    )
    pod = PodRecord(
        f"digits-trainer-{index}",
        "u" * 36,
        123456,
        "o" * 36,
        labels,
        "Failed",
        "Evicted",
        "m" * 200,
        "node-1",
        "10.0.0.1",
        "2026-01-01T00:00:00Z",
        "",
        "2026-01-01T00:00:00Z",
        containers=(container, container),
    )
    return orjson.dumps(pod)


def test_a_live_job_of_4_pods_takes_at_most_20_kb_and_a_finished_one_1_kb(real_redis: RealRedis) -> None:
    """Measured over 100 jobs, so that what all share counts by its share; with a queue entry, a floor and echoes each."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.lead(1)
    keys = [JobKey(f"aitrainingjobs/some-namespace/digits-{n:04}") for n in range(100)]
    job = orjson.dumps({"spec": "s" * 4000})
    for key in keys:
        store.apply(1, [a_job(5, key, record=job)])
        hold = store.acquire(key, "worker", 30)
        assert hold is not None
        pods = [Change(key, "pods", f"digits-trainer-{n}", 6 + n, a_full_pod(n)) for n in range(4)]
        services = [Change(key, "services", f"digits-trainer-{n}", 6 + n, b"s" * 300) for n in range(4)]
        store.apply(1, [*pods, *services])
        store.finish(hold, Written([("pods", 20 + n) for n in range(4)]), after_seconds=60)
    live = used_bytes(real_redis) / len(keys)
    print(f"live job of 4 pods: {live:.0f} bytes")  # noqa: T201
    assert live <= LIVE_BYTES
    store.apply(1, [a_job(99, key, finished=True, record=b"r" * 300) for key in keys])
    with real_redis.client() as redis:
        for fact in ("floor", "echo"):  # lapse by themselves after five minutes
            redis.delete(*redis.keys(f"{real_redis.prefix}:{fact}:*"))
        redis.delete(f"{real_redis.prefix}:queue:delayed", f"{real_redis.prefix}:queue:dirty")
    finished = used_bytes(real_redis) / len(keys)
    print(f"finished job: {finished:.0f} bytes")  # noqa: T201
    assert finished <= FINISHED_BYTES


def test_nothing_is_left_of_a_deleted_job_but_what_lapses(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.lead(1)
    store.apply(1, [a_job(5), a_pod(6)])
    hold = store.acquire(A, "worker", 30)
    assert hold is not None
    store.apply(1, [a_pod(7)])
    store.finish(hold, Written([("pods", 9)]), after_seconds=60, failed=True)
    store.apply(1, [Change(A, "pods", "a-0", 10, None), Change(A, "aitrainingjobs", "a", 11, None, is_job=True)])
    with real_redis.client() as redis:
        lasting = {
            key.decode().removeprefix(f"{real_redis.prefix}:") for key in real_redis.all_keys() if redis.ttl(key) < 0
        }
    assert lasting == {"writer", "fence"}


def test_no_key_of_a_job_without_an_end_outlives_it(real_redis: RealRedis) -> None:
    """FACT keys always lapse: a floor, an echo or a tombstone without a TTL would stay for ever."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.lead(1)
    store.apply(1, [a_job(5), a_pod(6), Change(A, "pods", "a-0", 7, None)])
    hold = store.acquire(A, "worker", 30)
    assert hold is not None
    store.raise_floor(hold, Written([("pods", 9)]))
    store.finish(hold, Written([("pods", 9), ("services", 10)]))
    with real_redis.client() as redis:
        for fact in ("floor", "echo", "gone"):
            assert 290 <= redis.ttl(f"{real_redis.prefix}:{fact}:{A}") <= 300


def test_a_redis_that_comes_back_without_its_last_writes_is_noticed(real_redis: RealRedis) -> None:
    """An append-only file synced every second may lose one: then a change is missing that no watch will send again."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.lead(1)
    store.mark_synced(1)
    store.apply(1, [a_job(5)])
    with real_redis.client() as redis:
        before = {key: redis.dump(key) for key in real_redis.all_keys()}
        store.apply(1, [a_pod(6)])
        for key in real_redis.all_keys():
            redis.delete(key)
        for key, value in before.items():
            redis.restore(key, 0, value)
    with pytest.raises(Lost):
        store.apply(1, [], progress={"pods": 7})
    store.lead(1)
    store.apply(1, [a_pod(6)])
    assert "pods" in store.view(A).children


def test_an_answer_that_was_lost_is_not_taken_for_a_lost_write(real_redis: RealRedis) -> None:
    """The write happened, only the writer was not told: Redis is ahead of it, not behind."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.lead(1)
    unheard = open_store(real_redis.url, real_redis.prefix)
    unheard.lead(1)
    unheard.apply(1, [a_job(5)])
    assert store.apply(1, [a_job(5)]) == []
    assert store.apply(1, [a_job(6)]) == []
    assert store.stats().queued == 1


def test_a_lost_task_is_not_looked_for_while_the_broker_holds_a_task_for_each_key(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.add([A, B])
    with real_redis.client() as redis:
        redis.lpush(real_redis.prefix, b"message", b"message")
        assert store.resync(lost_after_seconds=0, everything=False) == []
        redis.rpop(real_redis.prefix)
        assert store.resync(lost_after_seconds=0, everything=False) == [A]


def test_as_many_keys_as_lack_a_task_get_one_and_the_oldest_first(real_redis: RealRedis) -> None:
    """One lost task in a long queue must not double the queue."""
    store = open_store(real_redis.url, real_redis.prefix)
    keys = [JobKey(f"aitrainingjobs/default/waits-{n}") for n in range(5)]
    store.add(keys)
    with real_redis.client() as redis:
        now = redis.time()[0]
        for age, key in enumerate(reversed(keys)):
            redis.zadd(f"{real_redis.prefix}:queue:dirty", {key: now - 40 - age})
        redis.lpush(real_redis.prefix, *["message"] * 3)
    assert store.resync(lost_after_seconds=30, everything=False) == keys[:2]


def test_a_key_of_a_dead_holder_is_counted_once(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.add([A, B])
    assert store.acquire(A, "dies", 0.001)
    with real_redis.client() as redis:
        redis.lpush(real_redis.prefix, b"the task of B")
        while redis.exists(f"{real_redis.prefix}:lock:{A}"):
            pass
    assert store.resync(lost_after_seconds=0, everything=False) == [A]


def test_a_key_that_runs_and_is_dirty_needs_no_task(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.add([A, B])
    assert store.acquire(A, "worker", 30)
    store.add([A])
    with real_redis.client() as redis:
        redis.lpush(real_redis.prefix, b"the task of B")
    assert store.resync(lost_after_seconds=0, everything=False) == []


def test_a_key_never_has_two_holders_whatever_the_threads_do(redis_url: str, real_redis: RealRedis) -> None:
    keys = [JobKey(f"aitrainingjobs/default/job-{n}") for n in range(5)]
    inside: Counter[JobKey] = Counter()
    most: Counter[JobKey] = Counter()
    guard = threading.Lock()
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            store = open_store(redis_url, real_redis.prefix)
            for turn in range(150):
                key = keys[(number + turn) % len(keys)]
                store.add([key])
                hold = store.acquire(key, f"worker-{number}", 30)
                if hold is None:
                    continue
                with guard:
                    inside[key] += 1
                    most[key] = max(most[key], inside[key])
                store.renew(hold, 30)
                with guard:
                    inside[key] -= 1
                store.finish(hold, again=turn % 3 == 0)
        except BaseException as error:  # noqa: BLE001  reported below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert set(most.values()) == {1}


def test_a_writer_that_was_paused_while_it_forgot_takes_nothing_from_the_next_one(
    real_redis: RealRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (open_store(real_redis.url, real_redis.prefix) for _ in range(2))
    one.lead(1)
    one.apply(1, [a_job(5)])
    scan = one._client.scan_iter

    def paused(**how: Any) -> list[bytes]:
        found = list(scan(**how))
        two.lead(2)
        two.apply(2, [a_job(7)])
        return found

    monkeypatch.setattr(one._client, "scan_iter", paused)
    with pytest.raises(Fenced):
        one.forget_history(1)
    assert two.view(A).job is not None


def test_two_operators_with_two_prefixes_share_nothing(real_redis: RealRedis) -> None:
    one, two = (open_store(real_redis.url, f"{real_redis.prefix}:{n}") for n in "ab")
    one.lead(5)
    two.lead(1)
    assert one.add([A]) == two.add([A]) == [A]
    assert one.acquire(A, "w", 30)
    assert two.acquire(A, "w", 30)
    one.lead(6)
    two.apply(1, [a_job(5)])
    with pytest.raises(Fenced):
        one.apply(5, [])


def test_a_large_batch_of_changes_never_blocks_redis_for_long(real_redis: RealRedis) -> None:
    """Not measured: what takes long on a busy machine need not be long. So many changes a call take some milliseconds."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.lead(1)
    keys = [JobKey(f"aitrainingjobs/default/j{n}") for n in range(2000)]
    changes = [change for key in keys for change in (a_job(5, key), a_pod(6, key))]
    with client(real_redis.url) as redis:

        def calls() -> int:
            told: dict[str, dict[str, int]] = redis.info("commandstats")
            return sum(told.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))

        before = calls()
        assert len(store.apply(1, changes)) == 2000
        assert calls() - before >= len(changes) / 500
