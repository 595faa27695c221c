"""The history in Redis: it takes no room that the operator needs, and believes nothing that others write there."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from benchmarks.support.valkey import Valkey
from tests.conftest import RealRedis
from tests.integration.history.test_contract import NOW, A, entry
from tjworker.base import REDIS_FULL, OperatorError, Transient
from tjworker.history.records import Summary
from tjworker.history.redis_history import RedisHistory
from tjworker.history.store import LIVE_SECONDS, Bounds, LeftOut
from tjworker.store.connect import client
from tjworker.store.redis_commands import RedisCommands


def history(url: str, prefix: str = "tj") -> RedisHistory:
    return RedisHistory(RedisCommands(client(url), prefix, where=url), Bounds(100.0, 1000))


def test_near_maxmemory_nothing_is_written_and_the_oldest_jobs_go(own_valkey: Valkey) -> None:
    store = history(own_valkey.url)
    store.put([entry(A, job={"text": "x"})], NOW)
    with client(own_valkey.url) as redis:
        redis.config_set("maxmemory", int(redis.info("memory")["used_memory"]))
        with pytest.raises(Transient, match="TJ_HISTORY_JOBS") as error:
            store.put([entry(A)], NOW)
        assert error.value.reason == REDIS_FULL
        assert not redis.exists("tj:history:job:team-a/uid-1")
        redis.config_set("maxmemory", 0)
    store.put([entry(A)], NOW)
    assert store.summaries() == [A]


@pytest.mark.parametrize(("share", "full"), [(0.74, False), (0.77, True)])
def test_the_history_leaves_a_quarter_of_redis_to_the_operator(
    real_redis: RealRedis, share: float, full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = history(real_redis.url, real_redis.prefix)
    memory = {"maxmemory": 1_000_000, "used_memory": int(share * 1_000_000)}
    monkeypatch.setattr(store._client, "info", lambda section: memory)
    if full:
        with pytest.raises(Transient):
            store.put([entry(A)], NOW)
    else:
        store.put([entry(A)], NOW)
    assert bool(store.summaries()) is not full


def test_a_job_that_the_index_has_lost_goes_by_itself(real_redis: RealRedis) -> None:
    store = history(real_redis.url, real_redis.prefix)
    key = f"{real_redis.prefix}:history:job:team-a/uid-1"
    with real_redis.client() as redis:
        store.put([entry(A)], NOW)
        assert 0.9 * LIVE_SECONDS < redis.ttl(key) < 1.1 * LIVE_SECONDS
        store.put([entry(A, keep_seconds=2 * LIVE_SECONDS)], NOW)
        assert redis.ttl(key) > 1.9 * LIVE_SECONDS


def test_a_redis_that_is_away_is_an_error_of_ours(own_valkey: Valkey) -> None:
    store = history(own_valkey.url)
    own_valkey.kill()
    with pytest.raises(OperatorError):
        store.put([entry(A)], NOW)


SPOILT = {
    "no JSON": b"\xff\xfe{",
    "a list": b"[1]",
    "a number in the place of a name": b'{"resource":"a","namespace":"team-a","name":1,"uid":"uid-1"}',
    "the summary of another job": b'{"resource":"a","namespace":"team-b","name":"b","uid":"uid-1"}',
    "no summary": b"{}",
}


@pytest.mark.parametrize("text", SPOILT.values(), ids=SPOILT.keys())
def test_a_summary_that_somebody_else_has_written_is_left_out(real_redis: RealRedis, text: bytes) -> None:
    store = history(real_redis.url, real_redis.prefix)
    store.put([entry(A)], NOW)
    with real_redis.client() as redis:
        redis.hset(f"{real_redis.prefix}:history:job:team-a/uid-1", "summary", text)
    assert store.summaries() == []
    assert store.story("team-a", "uid-1") is None


def with_a_foreign_key(real_redis: RealRedis) -> tuple[RedisHistory, Summary]:
    """A history whose first job other software has made a string, and its second job."""
    store = history(real_redis.url, real_redis.prefix)
    other = replace(A, uid="uid-2")
    store.put([entry(A), entry(other)], NOW)
    with real_redis.client() as redis:
        redis.set(f"{real_redis.prefix}:history:job:team-a/uid-1", "a string")
    return store, other


def test_a_job_that_other_software_has_made_something_else_hides_no_other_job(real_redis: RealRedis) -> None:
    store, other = with_a_foreign_key(real_redis)
    assert store.summaries() == [other]
    assert store.story("team-a", "uid-1") is None


def test_keys_that_other_software_has_made_something_else_are_written_anew(real_redis: RealRedis) -> None:
    store, other = with_a_foreign_key(real_redis)
    with real_redis.client() as redis:
        redis.set(f"{real_redis.prefix}:history:jobs", "a string")
    with pytest.raises(OperatorError):
        store.summaries()
    assert store.put([entry(A, pods={f"p{n}": {"n": n} for n in range(300)}), entry(other)], NOW) == LeftOut()
    assert store.summaries() == [A, other]
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert len(story.pods) == 300


def test_a_record_that_unpacks_to_a_gigabyte_is_not_read(real_redis: RealRedis) -> None:
    store = history(real_redis.url, real_redis.prefix)
    store.put([entry(A, job={"a": 1})], NOW)
    packer = zlib.compressobj(9, zlib.DEFLATED, -13)
    bomb = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(200)) + packer.flush()
    with real_redis.client() as redis:
        redis.hset(f"{real_redis.prefix}:history:job:team-a/uid-1", "job", bomb)
    story = store.story("team-a", "uid-1")
    assert story is not None
    assert (story.summary, story.job) == (A, {})
