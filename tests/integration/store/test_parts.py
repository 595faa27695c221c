"""What is written to Redis in parts is all there, or all gone, whatever the number: one part less one, one part, one
more, and two parts and one more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import RealRedis
from tests.integration.store.driver import A, Drive, a_job, a_pod
from tests.integration.store.worlds import World
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.store.connect import open_store
from tjworker.store.keys import BY_NAME
from tjworker.store.projection import RecordPlace
from tjworker.store.redis_commands import KEYS_PER_CALL
from tjworker.store.redis_projection import CHANGES_PER_CALL

NO_KEY = JobKey("")
BESIDE = {"beside": b"1"}


def keys(count: int) -> list[JobKey]:
    return [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/x{n:04}") for n in range(count)]


def records(count: int) -> dict[str, bytes]:
    return {f"n{n:04}": b"%d" % n for n in range(count)}


def new_jobs(d: Drive, count: int) -> None:
    assert sorted(d.apply(*(a_job(5, key) for key in keys(count)), progress={"pods": 9})) == keys(count), "are queued"
    assert sorted(d.projection.unfinished()) == keys(count)
    assert d.projection.checkpoint().progress == {"pods": 9}


def pods_of_a_job(d: Drive, count: int) -> None:
    d.job(5)
    d.apply(*(a_pod(6, name=name) for name in records(count)))
    assert list(d.pods()) == list(records(count))
    assert d.projection.known_children([A], PODS) == [(A, name) for name in records(count)]


def nodes(d: Drive, count: int) -> None:
    d.projection.apply_nodes(1, BESIDE)
    d.projection.apply_nodes(1, records(count))
    assert d.projection.cluster().nodes == BESIDE | records(count)
    d.projection.apply_nodes(1, dict.fromkeys(records(count)))
    assert d.projection.cluster().nodes == BESIDE


def requests(d: Drive, count: int) -> None:
    d.projection.apply_node_requests(1, BESIDE)
    d.projection.apply_node_requests(1, records(count))
    assert d.projection.cluster().node_requests == BESIDE | records(count)
    d.projection.apply_node_requests(1, dict.fromkeys(records(count)))
    assert d.projection.cluster().node_requests == BESIDE


def all_requests(d: Drive, count: int) -> None:
    d.projection.apply_node_requests(1, BESIDE)
    d.projection.apply_node_requests(1, records(count), whole=True)
    assert d.projection.cluster().node_requests == records(count)


def distrusted(d: Drive, count: int) -> None:
    d.projection.apply_nodes(1, BESIDE | records(count))
    d.projection.distrust([RecordPlace(NO_KEY, name, "node") for name in records(count)])
    assert d.projection.cluster().nodes == BESIDE


def queued(d: Drive, count: int) -> None:
    assert list(d.add(*keys(count))) == keys(count), "each has its task"
    assert d.queued() == count


def history_begun_anew(d: Drive, count: int) -> None:
    d.apply(*(a_job(5, key) for key in keys(count)))
    d.projection.reset(1)
    assert d.projection.unfinished() == {}
    d.apply(*(a_job(3, key) for key in keys(count)))
    assert sorted(d.projection.unfinished()) == keys(count), "no version of the earlier history is in the way"


WRITES: dict[str, tuple[Callable[[Drive, int], None], int]] = {
    "new jobs": (new_jobs, CHANGES_PER_CALL),
    "pods of a job": (pods_of_a_job, CHANGES_PER_CALL),
    "nodes": (nodes, CHANGES_PER_CALL),
    "requests on nodes": (requests, CHANGES_PER_CALL),
    "requests on all nodes": (all_requests, CHANGES_PER_CALL),
    "records that are not to be trusted": (distrusted, CHANGES_PER_CALL),
    "keys to queue": (queued, KEYS_PER_CALL),
    "a history that has begun anew": (history_begun_anew, KEYS_PER_CALL),
}
SIZES: dict[str, Callable[[int], int]] = {
    "n-1": lambda n: n - 1,
    "n": lambda n: n,
    "n+1": lambda n: n + 1,
    "2n+1": lambda n: 2 * n + 1,
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sentence", WRITES)
def test_all_parts_are_written(sentence: str, size: str, world: World) -> None:
    write, part = WRITES[sentence]
    write(Drive(world), SIZES[size](part))


@pytest.mark.parametrize("size", SIZES)
def test_all_parts_are_repaired(size: str, real_redis: RealRedis) -> None:
    """Keys of a type that nobody of ours writes."""
    count, redis = SIZES[size](KEYS_PER_CALL), real_redis.client()
    stored = [BY_NAME["job"].of(real_redis.prefix, key) for key in keys(count)]
    redis.mset(dict.fromkeys(stored, "x"))
    assert open_store(real_redis.url, real_redis.prefix).maintenance.repair(lease_seconds=30, everything=True) == count
    assert redis.exists(*stored) == 0
