"""What only the projection in Redis can show: memory, keys that lapse, a Redis that comes back older, fencing."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.conftest import RealRedis
from tests.integration.store.driver import A, a_job, a_pod
from tests.support.kinds import AITRAININGJOBS
from tests.support.queueing import acquire_one, finish_one
from tjworker.api.observed import ContainerRecord, PodRecord
from tjworker.api.resources import PODS, SERVICES
from tjworker.base import Fenced, JobKey, Transient
from tjworker.store.connect import client, open_store
from tjworker.store.projection import Change, Lost
from tjworker.store.redis_commands import RedisCommands
from tjworker.store.redis_projection import CHANGES_PER_CALL
from tjworker.store.work_queue import OnNews, WithBackoff, Written

LIVE_BYTES = 20 * 1024
FINISHED_BYTES = 1024


def used_bytes(real_redis: RealRedis) -> int:
    with real_redis.client() as redis:
        return sum(redis.memory_usage(key, samples=0) for key in real_redis.all_keys())


def a_full_pod(index: int) -> bytes:
    """About what a pod of a job looks like in the projection when everything that it may say is said."""
    labels = {f"label-{n}": "x" * 40 for n in range(8)}
    container = ContainerRecord(
        "aitj-trainer", "terminated", "Error", "m" * 200, 137, 9, 2, False, 1767225600, 1767225600
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
        1767225600,
        None,
        1767225600,
        containers=(container, container),
    )
    return orjson.dumps(pod)


def test_a_live_job_of_4_pods_takes_at_most_20_kb_and_a_finished_one_1_kb(real_redis: RealRedis) -> None:
    """Measured over 100 jobs, so that what all share counts by its share; with a queue entry, own writes and
    echoes each."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.projection.lead(1)
    keys = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/some-namespace/digits-{n:04}") for n in range(100)]
    job = orjson.dumps({"spec": "s" * 4000})
    for key in keys:
        store.projection.apply(1, [a_job(5, key, record=job)])
        claim = acquire_one(store.queue, key, "worker", 30)
        assert claim is not None
        pods = [Change(key, PODS, f"digits-trainer-{n}", 6 + n, a_full_pod(n)) for n in range(4)]
        services = [Change(key, SERVICES, f"digits-trainer-{n}", 6 + n, b"s" * 300) for n in range(4)]
        store.projection.apply(1, [*pods, *services])
        finish_one(store.queue, claim, Written([(PODS, 20 + n) for n in range(4)]), next_pass=OnNews(60))
    live = used_bytes(real_redis) / len(keys)
    print(f"live job of 4 pods: {live:.0f} bytes")  # noqa: T201
    assert live <= LIVE_BYTES
    store.projection.apply(1, [a_job(99, key, finished=True, record=b"r" * 300) for key in keys])
    with real_redis.client() as redis:
        for fact in ("min_observed", "echo"):  # lapse by themselves after five minutes
            redis.delete(*redis.keys(f"{real_redis.prefix}:{fact}:*"))
        redis.delete(f"{real_redis.prefix}:queue:delayed", f"{real_redis.prefix}:queue:dirty")
    finished = used_bytes(real_redis) / len(keys)
    print(f"finished job: {finished:.0f} bytes")  # noqa: T201
    assert finished <= FINISHED_BYTES


def test_nothing_is_left_of_a_deleted_job_but_what_lapses(real_redis: RealRedis) -> None:
    store = open_store(real_redis.url, real_redis.prefix)
    store.projection.lead(1)
    store.projection.apply(1, [a_job(5), a_pod(6)])
    claim = acquire_one(store.queue, A, "worker", 30)
    assert claim is not None
    store.projection.apply(1, [a_pod(7)])
    finish_one(store.queue, claim, Written([(PODS, 9)]), next_pass=WithBackoff(60))
    store.projection.apply(1, [Change(A, PODS, "a-0", 10, None), Change(A, AITRAININGJOBS, "a", 11, None, is_job=True)])
    with real_redis.client() as redis:
        lasting = {
            key.decode().removeprefix(f"{real_redis.prefix}:") for key in real_redis.all_keys() if redis.ttl(key) < 0
        }
    assert lasting == {"writer", "fence", "queue:turn"}


def test_no_key_of_a_job_without_an_end_outlives_it(real_redis: RealRedis) -> None:
    """FACT keys always lapse: a minimum observed version, an echo or a tombstone without a TTL would stay for ever."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.projection.lead(1)
    store.projection.apply(1, [a_job(5), a_pod(6), Change(A, PODS, "a-0", 7, None)])
    claim = acquire_one(store.queue, A, "worker", 30)
    assert claim is not None
    store.queue.raise_min_observed(claim, Written([(PODS, 9)]))
    finish_one(store.queue, claim, Written([(PODS, 9), (SERVICES, 10)]))
    with real_redis.client() as redis:
        for fact in ("min_observed", "echo", "gone"):
            assert 290 <= redis.ttl(f"{real_redis.prefix}:{fact}:{A}") <= 300


def test_a_redis_that_comes_back_without_its_last_writes_is_noticed(real_redis: RealRedis) -> None:
    """An append-only file synced every second may lose one: then a change is missing that no watch will send again."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.projection.lead(1)
    store.projection.mark_synced(1)
    store.projection.apply(1, [a_job(5)])
    with real_redis.client() as redis:
        before = {key: redis.dump(key) for key in real_redis.all_keys()}
        store.projection.apply(1, [a_pod(6)])
        for key in real_redis.all_keys():
            redis.delete(key)
        for key, value in before.items():
            redis.restore(key, 0, value)
    with pytest.raises(Lost):
        store.projection.apply(1, [], progress={PODS: 7})
    store.projection.lead(1)
    store.projection.apply(1, [a_pod(6)])
    assert PODS in store.projection.view(A).children


def test_an_answer_that_was_lost_is_not_taken_for_a_lost_write(real_redis: RealRedis) -> None:
    """The write happened, only the writer was not told: Redis is ahead of it, not behind."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.projection.lead(1)
    unheard = open_store(real_redis.url, real_redis.prefix)
    unheard.projection.lead(1)
    unheard.projection.apply(1, [a_job(5)])
    assert store.projection.apply(1, [a_job(5)]) == []
    assert store.projection.apply(1, [a_job(6)]) == []
    assert store.queue.stats().queued == 1


def test_a_writer_that_was_paused_while_it_forgot_takes_nothing_from_the_next_one(
    real_redis: RealRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (open_store(real_redis.url, real_redis.prefix) for _ in range(2))
    one.projection.lead(1)
    one.projection.apply(1, [a_job(5)])
    scan = one.projection._redis.client.scan_iter

    def paused(**how: Any) -> list[bytes]:
        found = list(scan(**how))
        two.projection.lead(2)
        two.projection.apply(2, [a_job(7)])
        return found

    monkeypatch.setattr(one.projection._redis.client, "scan_iter", paused)
    with pytest.raises(Fenced):
        one.projection.reset(1)
    assert two.projection.view(A).job is not None


def test_a_large_batch_of_changes_never_blocks_redis_for_long(real_redis: RealRedis) -> None:
    """Not measured: what takes long on a busy machine need not be long. So many changes a call take some
    milliseconds."""
    store = open_store(real_redis.url, real_redis.prefix)
    store.projection.lead(1)
    keys = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/j{n}") for n in range(2000)]
    changes = [change for key in keys for change in (a_job(5, key), a_pod(6, key))]
    with client(real_redis.url) as redis:

        def calls() -> int:
            told: dict[str, dict[str, int]] = redis.info("commandstats")
            return sum(told.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))

        before = calls()
        assert len(store.projection.apply(1, changes)) == 2000
        assert calls() - before >= len(changes) / 500


def test_progress_is_not_written_before_the_last_of_what_it_tells_of(
    real_redis: RealRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch goes in parts, and a watcher may die between two: the next one resumes at the progress that it finds."""
    projection = open_store(real_redis.url, real_redis.prefix).projection
    projection.lead(1)
    batch = [a_job(5), *(a_pod(6 + n, name=f"a-{n}") for n in range(2 * CHANGES_PER_CALL))]
    run, calls = RedisCommands.run, []

    def dies(self: RedisCommands, script: str, *arguments: Any) -> Any:
        calls.append(script)
        if len(calls) == 3:
            raise Transient("the watcher dies here")
        return run(self, script, *arguments)

    monkeypatch.setattr(RedisCommands, "run", dies)
    with pytest.raises(Transient):
        projection.apply(1, batch, progress={"pods": 900})
    monkeypatch.setattr(RedisCommands, "run", run)
    assert calls == ["apply"] * 3
    assert projection.checkpoint().progress == {}
    projection.apply(1, batch, progress={"pods": 900})
    assert projection.checkpoint().progress == {"pods": 900}
