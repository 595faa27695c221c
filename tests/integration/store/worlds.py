"""One store in a world whose time a test moves: in memory, and on a real Redis. Its records are sealed, as watcher and
workers have it.

`advance` makes time pass without waiting. On Redis everything that the clock is compared with moves back instead:
scores of the queues, and what is left to live of each key.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import redis

from tests.conftest import RealRedis
from tests.support.memory_redis import Facts
from tests.support.memory_store import MemoryStore
from tjworker.base import JobKey
from tjworker.store.connect import open_store
from tjworker.store.keys import BY_NAME, KEYS
from tjworker.store.port import Store
from tjworker.store.seal import Seal
from tjworker.store.sealed_store import SealedStore, sealed

SEAL = Seal(["c" * 32], "tj")


TIMES = ("dirty", "running", "delayed")
"""Their scores are times."""
NOT_SHOWN = ("fence", "broker", "periodic", "history", "history_jobs", "workers")
"""Of what Redis holds: the first grows with the clock. The next two are Celery's, the others belong to the history and
to the page."""
SHOWN = tuple(key.name for key in KEYS if key.name not in NOT_SHOWN)


class World(Protocol):
    store: SealedStore
    bare: Store
    """The store beneath it, whose records are what stands there. As it is for somebody without a key."""
    real: bool

    def advance(self, seconds: float) -> None: ...
    def flush(self) -> None: ...
    def save(self) -> None: ...
    def go_back(self) -> None:
        """To what was saved last, and nothing else."""
        ...

    def messages(self, count: int) -> None:
        """From now on Celery's queue has so many."""
        ...

    def queued_by_an_earlier_version(self, key: JobKey) -> None:
        """Which knows no line."""
        ...

    def taken_by_a_stranger(self, name: str, seconds: float | None) -> None:
        """A task's key that ends in so long a time, or never."""
        ...

    def another(self) -> Store:
        """A second process: another bare store on the same data."""
        ...

    def tables(self) -> dict[str, Any]:
        """What is left under each key of SHOWN, without what is empty: by job key where there is one for each job,
        sets as sets, times as seconds from now, of records and locks their version and their owner."""
        ...


class MemoryWorld:
    real = False

    def __init__(self) -> None:
        self.now_seconds = 1_000_000.0
        self.messages_waiting = 0
        self._memory = MemoryStore(lambda: self.now_seconds, broker=lambda: self.messages_waiting)
        self.bare: Store = self._memory
        self.store = sealed(self.bare, SEAL)
        self._saved = self._memory.snapshot()

    def advance(self, seconds: float) -> None:
        self.now_seconds += seconds

    def flush(self) -> None:
        self._memory.flush()
        self.messages_waiting = 0

    def save(self) -> None:
        self._saved = self._memory.snapshot()

    def go_back(self) -> None:
        self._memory.restore(self._saved)

    def messages(self, count: int) -> None:
        self.messages_waiting = count

    def queued_by_an_earlier_version(self, key: JobKey) -> None:
        self._memory._redis.tables.dirty[key] = self.now_seconds

    def taken_by_a_stranger(self, name: str, seconds: float | None) -> None:
        self._memory._redis.tables.once[name] = self.now_seconds + (math.inf if seconds is None else seconds)

    def another(self) -> Store:
        return self._memory

    def tables(self) -> dict[str, Any]:
        tables, now = self._memory._redis.tables, self.now_seconds

        def alive(facts: dict[JobKey, Facts]) -> dict[str, dict[str, int]]:
            return {key: one.entries for key, one in facts.items() if one.ends > now}

        jobs: dict[str, dict[str, int]] = {key: {"job": job.rv} for key, job in tables.jobs.items()}
        for key, children in tables.children.items():
            jobs.setdefault(key, {}).update({f"{of}/{name}": one.rv for (of, name), one in children.items()})
        flags = {"token": tables.token, "synced": tables.synced, "children": tables.children_in}
        found = {
            **{name: getattr(tables, name) for name in SHOWN if hasattr(tables, name)},
            **{name: alive(getattr(tables, name)) for name in ("gone", "min_observed")},
            "rests": {key: version for key, (version, ends) in tables.rests.items() if ends > now},
            **{name: {key: score - now for key, score in getattr(tables, name).items()} for name in TIMES},
            "writer": {**flags, "cluster": tables.cluster, "form": tables.form},
            "job": jobs,
            "echo": {key: set(entries) for key, entries in alive(tables.echo).items()},
            "lock": {key: lock.owner for key, lock in tables.locks.items() if lock.ends > now},
            "once": {name for name, ends in tables.once.items() if ends > now},
            "nodes": set(tables.nodes),
            "node_requests": set(tables.node_requests),
        }
        return {name: left for name in SHOWN if (left := _without_empty(found[name]))}


class RedisWorld:
    real = True

    def __init__(self, real_redis: RealRedis) -> None:
        self.redis = real_redis
        self.client: redis.Redis = real_redis.client()
        self.bare: Store = self.another()
        self.store = sealed(self.bare, SEAL)
        self._saved: dict[bytes, tuple[int, Any]] = {}

    def advance(self, seconds: float) -> None:
        for name in ("dirty", "running", "delayed"):
            queue = BY_NAME[name].of(self.redis.prefix)
            members: list[Any] = self.client.zrange(queue, 0, -1)
            for key in members:
                self.client.zincrby(queue, -seconds, key)
        for stored in self.redis.all_keys():
            left = self.client.pttl(stored)
            if left > 0:
                self.client.pexpire(stored, max(0, left - round(seconds * 1000)))

    def flush(self) -> None:
        for stored in self.redis.all_keys():
            self.client.delete(stored)
        self.messages(0)

    def save(self) -> None:
        self._saved = {
            stored: (max(0, self.client.pttl(stored)), self.client.dump(stored)) for stored in self.redis.all_keys()
        }

    def go_back(self) -> None:
        self.flush()
        for stored, (left, dump) in self._saved.items():
            self.client.restore(stored, left, dump)

    def messages(self, count: int) -> None:
        queue = BY_NAME["broker"].of(self.redis.prefix)
        self.client.delete(queue)
        for _ in range(count):
            self.client.lpush(queue, b"message")

    def queued_by_an_earlier_version(self, key: JobKey) -> None:
        self.client.zadd(BY_NAME["dirty"].of(self.redis.prefix), {key: self._now()})

    def taken_by_a_stranger(self, name: str, seconds: float | None) -> None:
        self.client.set(
            BY_NAME["once"].of(self.redis.prefix, name), b"his", ex=None if seconds is None else int(seconds)
        )

    def another(self) -> Store:
        return open_store(self.redis.url, self.redis.prefix)

    def tables(self) -> dict[str, Any]:
        commands = {"string": "get", "set": "smembers", "hash": "hgetall", "sorted set": "zrange"}
        wanted: list[tuple[str, str]] = []
        with self.client.pipeline(transaction=False) as pipe:
            for stored in (name.decode() for name in self.redis.all_keys()):
                for name in SHOWN:
                    key = BY_NAME[name]
                    begins = key.of(self.redis.prefix)
                    if stored == begins if key.is_one else stored.startswith(begins):
                        wanted.append((name, stored.removeprefix(begins)))
                        scores: dict[str, Any] = {"withscores": True} if key.type == "sorted set" else {}
                        getattr(pipe, commands[key.type])(stored, *((0, -1) if scores else ()), **scores)
            answers, now = pipe.execute(), self._now()
        found: dict[str, Any] = {}
        for (name, suffix), answer in zip(wanted, answers, strict=True):
            content = _content(name, answer, now)
            if suffix:
                found.setdefault(name, {})[suffix] = content
            else:
                found[name] = content
        found["once"] = set(found.get("once", ()))
        return {name: left for name in SHOWN if (left := _without_empty(found.get(name)))}

    def _now(self) -> float:
        seconds, micros = self.client.time()
        return float(seconds) + float(micros) / 1e6


def _content(name: str, answer: Any, now: float) -> Any:
    match BY_NAME[name].type:
        case "string":
            text: str = answer.decode()
            return text.partition(" ")[2] if name == "lock" else text if name in ("once", "rests") else int(text)
        case "set":
            return {member.decode() for member in answer}
        case "sorted set":
            return {member.decode(): score - now if name in TIMES else int(score) for member, score in answer}
        case _:
            return _fields(name, answer)


def _fields(name: str, answer: Any) -> Any:
    fields = {field.decode(): value for field, value in answer.items()}
    if name == "writer":
        texts = {field: value.decode() for field, value in fields.items() if field != "seq"}
        return {**texts, **{field: int(texts[field]) for field in ("token", "synced", "children") if field in texts}}
    if name in ("nodes", "node_requests"):
        return set(fields)
    return {field: int(value.partition(b" ")[0]) for field, value in fields.items()}


def _without_empty(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    shown = {name: _without_empty(value) for name, value in found.items()}
    return {name: value for name, value in shown.items() if value or isinstance(value, float)}
