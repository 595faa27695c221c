# mypy: disable-error-code="misc"
"""The poisoned system over a real Redis: commands as anybody with its password sends them, key by key, whatever type.

What `attacks.py` does to the tables of the memory store, made of Redis' own commands. Time is virtual for the cluster
and real for Redis (leases, timers), so that a job here stands still and waits for no timer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

import redis

from tests.conftest import RealRedis
from tests.poison.lives import AI, STAYS
from tests.poison.world import KEY, PoisonedWorld
from tests.scenarios.world import job, role
from tests.support.memory_store import MemoryStore
from tjworker.base import Fenced, JobKey, OperatorError
from tjworker.store.connect import open_store
from tjworker.store.seal import Seal
from tjworker.store.sealed_store import sealed

JOBS = (JobKey(f"{AI}digits"), JobKey(f"{AI}beside"))
Command = Callable[[redis.Redis], Any]
Snapshot = Mapping[bytes, bytes]
"""Key -> what DUMP says of it."""
NUMBERS = (b"0", b"-1", b"999999999999999")
NO_RECORDS = (b"", b"x", b"{}", b"\xff\x00", b"9" * 5000)
ODD = b"\xff/\xfe"
"""A name that is no UTF-8."""


class RealPoisonedWorld(PoisonedWorld):
    def __init__(self, real: RealRedis, **more: Any) -> None:
        self._real = real
        self.redis = real.client()
        super().__init__(key_prefix=real.prefix, autoscale_policy="off", **more)

    def make_store(self) -> MemoryStore:
        store = open_store(self._real.url, self._real.prefix)
        return cast(MemoryStore, sealed(store, Seal([KEY], self._real.prefix)))

    def keys(self) -> list[bytes]:
        return self._real.all_keys()

    def snapshot(self) -> Snapshot:
        dumped = {key: self.redis.dump(key) for key in self.keys()}
        return {key: value for key, value in dumped.items() if value is not None}

    def kick(self) -> None:
        """A pass over every job, before the watcher looks and after."""
        for step in (self.work, self.run, lambda: self.advance(2)):
            self.queue.publish(JOBS)
            with suppress(redis.RedisError, OperatorError):
                self.store.queue.add(JOBS)
            with suppress(redis.RedisError, OperatorError):
                step()

    def watch(self) -> None:
        with suppress(Fenced, redis.RedisError, OperatorError):
            super().watch()

    def heal(self) -> None:
        for key in self.keys():
            self.redis.delete(key)
        self.queue.keys.clear()
        self.advance(3)


def begin(real: RealRedis) -> tuple[RealPoisonedWorld, list[Snapshot]]:
    """Two jobs that run, one of which was smaller; what Redis held on the way."""
    world = RealPoisonedWorld(real)
    trainer = role(1, annotations=STAYS, restartPolicy="OnFailure", restartLimit=2, minReplicas=1, maxReplicas=3)
    world.apply(job({"trainer": trainer})).run()
    earlier = [world.snapshot()]
    world.apply(job({"trainer": role(1, annotations=STAYS, restartPolicy="Never")}, name="beside")).run()
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 3}}}}).advance(3)
    earlier.append(world.snapshot())
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 2}}}}).advance(3)
    world.until("both run", lambda: {world.phase(), world.phase("beside")} == {"Running"})
    assert len(world.pods()) == 3
    return world, earlier


def attacks(world: RealPoisonedWorld, earlier: list[Snapshot]) -> Iterator[tuple[str, Command]]:
    """(what it is, in words; what it sends)."""
    now = world.keys()
    prefix = world.settings.key_prefix
    for key in now:
        name = key.decode().removeprefix(f"{prefix}:")
        yield f"{name} deleted", lambda r, key=key: r.delete(key)
        yield f"{name} is text", lambda r, key=key: (r.delete(key), r.set(key, "x"))
        yield f"{name} is a hash", lambda r, key=key: (r.delete(key), r.hset(key, "x", "y"))
        for what, command in _inside(world.redis, key):
            yield f"{name} {what}", command
        for other in now:
            if other != key and other.rpartition(b"/")[0] == key.rpartition(b"/")[0] != b"":
                what = f"{name} is what {other.decode()} is"
                yield what, lambda r, key=key, other=other: r.copy(other, key, replace=True)
    for number, old in enumerate(earlier):
        for key, value in old.items():
            what = f"{key.decode().removeprefix(f'{prefix}:')} put back from moment {number}"
            yield what, lambda r, key=key, value=value: r.restore(key, 0, value, replace=True)
        yield f"everything put back from moment {number}", lambda r, old=old: _restore(r, old)


def _restore(client: redis.Redis, old: Snapshot) -> None:
    for key, value in old.items():
        client.restore(key, 0, value, replace=True)


def _inside(client: redis.Redis, key: bytes) -> Iterator[tuple[str, Command]]:
    """Its entries, one by one."""
    kind = client.type(key)
    if kind == b"string":
        for new in (*NUMBERS, *NO_RECORDS):
            yield f"made {new!r}", lambda r, new=new: r.set(key, new)
    elif kind == b"hash":
        entries: Any = client.hgetall(key)
        for field, value in entries.items():
            shown = field.decode()
            yield f"{shown} deleted", lambda r, field=field: r.hdel(key, field)
            for new in (*NUMBERS, *NO_RECORDS, value[:-1], *(v for f, v in entries.items() if f != field)):
                yield f"{shown} made {new[:20]!r}", lambda r, field=field, new=new: r.hset(key, field, new)
            yield f"{shown} copied", lambda r, field=field, value=value: r.hset(key, field + b"-2", value)
            yield f"{shown} copied to an odd name", lambda r, value=value: r.hset(key, ODD, value)
    elif kind == b"set":
        for member in (*cast(set[bytes], client.smembers(key)), b"made/up/key", ODD):
            yield f"without {member!r}", lambda r, member=member: r.srem(key, member)
            yield f"with {member!r}", lambda r, member=member: r.sadd(key, member)
    elif kind == b"zset":
        for member in (*cast(list[bytes], client.zrange(key, 0, -1)), b"made/up/key", ODD):
            yield f"without {member!r}", lambda r, member=member: r.zrem(key, member)
            for score in (0, 1e12):
                yield f"{member!r} at {score}", lambda r, m=member, score=score: r.zadd(key, {m: score})
