"""What somebody else has written into Redis is put right by the leading watcher, and a token that no watcher has
written does not keep it from leading."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import pytest

from benchmarks.support.inprocess import InProcessTransport
from localcluster.cluster import LocalCluster
from tests.conftest import RealRedis
from tests.support.kinds import AITRAININGJOBS
from tests.support.memory_redis import Lock
from tests.support.memory_store import MemoryStore
from tests.support.waiting import until
from tests.unit.watcher.projection.objects import KEY
from tests.unit.watcher.writing import Bench, gone, job
from tjworker.base import JobKey
from tjworker.kube.client import KubeClient
from tjworker.settings import Settings
from tjworker.store.connect import open_store
from tjworker.store.projection import Lost, RecordPlace
from watcher.app import LEAPS, Watcher, make_elector
from watcher.projection import Projected
from watcher.redis_retry import RedisRetry
from watcher.repairs import Repairs

A = JobKey(KEY)
SETTINGS = Settings(resync_seconds=30, full_resync_seconds=600, lock_ttl_seconds=20)


def test_the_keys_of_every_job_are_put_right_with_each_full_resync() -> None:
    clock = [0.0]
    store = MemoryStore(clock=lambda: clock[0])
    repairs = Repairs(store.maintenance, SETTINGS, lambda: clock[0])
    store._redis.tables.locks[A] = Lock(9, "nobody", ends=1e12)
    store._redis.tables.dirty[A] = 1e12
    seen = {}
    for clock[0] in (29.0, 31.0, 599.0, 632.0):
        repairs.step()
        seen[clock[0]] = store._redis.tables.dirty[A] < 1e12, store._redis.tables.locks[A].ends < 1e12
    assert seen == {29.0: (False, False), 31.0: (True, False), 599.0: (True, False), 632.0: (True, True)}


def test_a_key_of_another_type_in_one_jobs_place_stops_the_writing_of_all_for_a_moment_only(
    real_redis: RealRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher.redis_retry.FIRST_WAIT_SECONDS", 0.001)
    store = open_store(real_redis.url, real_redis.prefix)
    clock = [0.0]
    repairs = Repairs(store.maintenance, SETTINGS, lambda: clock[0])
    retry = RedisRetry(threading.Event(), lambda: clock[0], random.Random(1), on_refused=repairs.repair_all)
    store.projection.lead(1)
    store.projection.apply(1, [job().change])
    client = real_redis.client()
    client.delete(f"{real_redis.prefix}:job:{A}")
    client.set(f"{real_redis.prefix}:job:{A}", "x")
    tries = iter(range(5))
    retry(lambda: (next(tries), store.projection.apply(1, [job(rv=8).change])))
    assert store.projection.view(A).job is not None


def test_a_token_that_no_watcher_has_written_keeps_none_from_leading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watcher.app.BETWEEN_TERMS_SECONDS", 0.001)
    cluster, store = LocalCluster(nodes=1), MemoryStore()
    api = KubeClient(InProcessTransport(cluster.apiserver.handle))
    store._redis.tables.token = 10**15

    settings, stopped = Settings(leader_elect=True), threading.Event()
    elector = make_elector(settings, api, "w-1", "default", stopped)
    watcher = Watcher(settings, api, store, lambda keys: None, elector, stopped=stopped)
    thread = threading.Thread(target=watcher.run, daemon=True)
    thread.start()
    try:
        until(
            "it leads, or has tried for long",
            lambda: store._redis.tables.token != 10**15 or watcher._refused > 3 * LEAPS,
        )
        assert store._redis.tables.token != 10**15
    finally:
        watcher.stop()
        thread.join()


def test_a_projection_that_somebody_calls_unsynced_is_synced_again_but_not_one_that_a_worker_distrusts() -> None:
    bench = Bench()
    bench.put(AITRAININGJOBS, job())
    bench.writer.confirm(whole=False)
    tables = bench.store._redis.tables
    assert not tables.synced, "not before every list is in"
    bench.writer.synced = True
    bench.writer.confirm(whole=False)
    assert tables.synced
    bench.store.projection.distrust([RecordPlace(A, "job")])
    with pytest.raises(Lost):
        bench.writer.confirm(whole=False)
    assert not tables.synced


@pytest.mark.parametrize("later", [replace(job(rv=8, phase="Succeed"), expires_at=None), gone(job(), 8)])
def test_a_job_that_keeps_no_ttl_or_is_gone_is_queued_by_none(later: Projected) -> None:
    clock = [1000.0]
    bench = Bench(MemoryStore(clock=lambda: clock[0]))
    bench.put(AITRAININGJOBS, replace(job(phase="Succeed"), expires_at=1100.0))
    bench.put(AITRAININGJOBS, later)
    bench.store._redis.tables.delayed.clear()
    clock[0] = 5000.0
    bench.published.clear()
    bench.writer.confirm(whole=True)
    bench.put(AITRAININGJOBS)
    assert bench.published == []


def test_a_finished_job_whose_timer_was_taken_away_is_queued_when_its_ttl_has_long_passed() -> None:
    clock = [1000.0]
    bench = Bench(MemoryStore(clock=lambda: clock[0]))
    finished = job(phase="Succeed")
    bench.put(AITRAININGJOBS, replace(finished, expires_at=1100.0))
    bench.store._redis.tables.delayed.clear()
    for clock[0], want in ((1090.0, []), (1130.0, []), (1200.0, [KEY])):
        bench.published.clear()
        bench.writer.confirm(whole=True)
        bench.put(AITRAININGJOBS)
        assert bench.published == want
