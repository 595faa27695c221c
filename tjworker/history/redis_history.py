"""The history in the operator's own Redis: one hash for each job, and an index by the time until which it is kept.

The history must not fill Redis, which holds the work queue: near maxmemory nothing is written and the oldest jobs are
dropped. Records are not sealed, since their readers have no record key. So they are read as foreign text, with bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from tjworker.base import REDIS_FULL, Json, Terminal, Transient
from tjworker.history.parts import LEAST_ROOM, fitting, parts_of, story_of
from tjworker.history.records import Entry, Story, Summary, read_object, read_summary
from tjworker.history.store import LIVE_SECONDS, Bounds, LeftOut
from tjworker.store import packing
from tjworker.store.redis_commands import KEYS_PER_CALL, RedisCommands, batches, text

FULL_SHARE = 0.75
"""Share of maxmemory at which the history stops writing. The rest is for the operator."""
FREED_JOBS = 200
"""How many jobs each write drops while Redis is that full."""
MOST_UNPACKED_BYTES = 4 << 20


class RedisHistory:
    def __init__(self, commands: RedisCommands, bounds: Bounds) -> None:
        self._redis = commands
        self._client: Any = commands.client
        self._bounds = bounds

    def put(self, entries: Sequence[Entry], now: float) -> LeftOut:
        full = self._is_full()
        try:
            # Dropping comes first, also when Redis is full: UNLINK needs no memory, and makes the room that the next
            # write needs.
            self._drop(now, FREED_JOBS if full else 0)
        except Terminal as error:
            if not _is_spoilt(error):
                raise
            # Other software has written the index. Its jobs are forgotten, and their keys end by their TTL.
            self._redis.read(lambda: self._client.unlink(self._redis.key("history_jobs")))
        if full:
            raise Transient(
                f"Redis has used {FULL_SHARE:.0%} of its maxmemory: no history is written; give it more, or lower"
                " TJ_HISTORY_JOBS",
                reason=REDIS_FULL,
            )
        return sum((self._write(part, now) for part in batches(entries, 100)), LeftOut())

    def _is_full(self) -> bool:
        memory = self._redis.read(lambda: self._client.info("memory"))
        most = int(memory.get("maxmemory") or 0)
        return bool(most) and int(memory.get("used_memory") or 0) > FULL_SHARE * most

    def _write(self, entries: Sequence[Entry], now: float) -> LeftOut:
        index = self._redis.key("history_jobs")
        keys = [self._key(entry.namespace, entry.uid) for entry in entries]
        parts = [parts_of(entry, _pack) for entry in entries]
        sizes = self._ask_each("hlen", keys)
        # Only jobs near a bound are asked for the names of their parts. For all others HLEN shows that there is room.
        crowded = [n for n, size in enumerate(sizes) if isinstance(size, int) and size + len(parts[n]) > LEAST_ROOM]
        names = dict(zip(crowded, self._ask_each("hkeys", [keys[n] for n in crowded]), strict=True))
        left_out = 0
        pipe = self._client.pipeline(transaction=False)
        for n, (entry, key) in enumerate(zip(entries, keys, strict=True)):
            fields: dict[str, bytes] = {} if entry.summary is None else {"summary": entry.summary.to_json()}
            if entry.job is not None:
                fields["job"] = _pack(entry.job)
            fit = fitting(parts[n], {text(name) for name in names.get(n) or ()})
            left_out += len(parts[n]) - len(fit)
            fields.update(fit)
            if not fields:
                continue
            # Other software has made the key another type, on which HSET would fail in every write of this job.
            if sizes[n] is None:
                pipe.unlink(key)
            pipe.hset(key, mapping=fields)
            # The index decides when a job is dropped. The TTL is for keys that the index has lost.
            pipe.expire(key, int(max(LIVE_SECONDS, entry.keep_until - now)) + 1)
            # News of a pod do not change until when its job is kept (NX), as an end or a deletion of the job does.
            pipe.zadd(index, {_member(entry.namespace, entry.uid): entry.keep_until}, nx=entry.summary is None)
        with self._redis.mapped():
            pipe.execute()
        return LeftOut(parts=left_out)

    def _ask_each(self, command: str, keys: Sequence[str], *arguments: str) -> list[Any]:
        """The answer for each key; None for a key that other software has made something else than a hash."""

        def ask() -> list[Any]:
            pipe = self._client.pipeline(transaction=False)
            for key in keys:
                pipe.execute_command(command.upper(), key, *arguments)
            return list(pipe.execute(raise_on_error=False))

        answers = self._redis.read(ask) if keys else []
        for answer in answers:
            if isinstance(answer, Exception) and not _is_spoilt(answer):
                raise self._redis.fault(answer)
        return [None if isinstance(answer, Exception) else answer for answer in answers]

    def _drop(self, now: float, more: int) -> None:
        """Drop the jobs whose time is over, the jobs above the bound, and `more` besides."""
        index, client = self._redis.key("history_jobs"), self._client
        with self._redis.mapped():
            over = list(client.zrangebyscore(index, "-inf", now, start=0, num=KEYS_PER_CALL))
            many = int(client.zcard(index)) - len(over) - self._bounds.jobs
            if (beyond := min(KEYS_PER_CALL, max(many, 0) + more)) > 0:
                over += client.zrange(index, len(over), len(over) + beyond - 1)
            if over:
                pipe = client.pipeline(transaction=False)
                # UNLINK frees the memory in another thread of Redis. DEL of hashes with 500 pods would hold up the work
                # queue.
                pipe.unlink(*(self._redis.key("history", text(member)) for member in over))
                pipe.zrem(index, *over)
                pipe.execute()

    def summaries(self) -> list[Summary]:
        index, client = self._redis.key("history_jobs"), self._client
        members: list[bytes] = self._redis.read(lambda: list(client.zrange(index, 0, -1)))
        summaries: list[Summary] = []
        for part in batches(members, KEYS_PER_CALL):
            keys = [self._redis.key("history", text(member)) for member in part]
            for member, data in zip(part, self._ask_each("hget", keys, "summary"), strict=True):
                summary = read_summary(data) if data else None
                # The page shows rows by the namespace in the summary: a summary under a foreign key would be shown to
                # viewers of another namespace.
                if summary is not None and _member(summary.namespace, summary.uid) == text(member):
                    summaries.append(summary)
        return summaries

    def story(self, namespace: str, uid: str) -> Story | None:
        (fields,) = self._ask_each("hgetall", [self._key(namespace, uid)])
        if fields is None:
            return None
        summary = read_summary(fields.get(b"summary", b""))
        # As in `summaries`: the caller has checked the viewer's right for this namespace alone.
        if summary is None or (summary.namespace, summary.uid) != (namespace, uid):
            return None
        parts = {text(name): data for name, data in fields.items()}
        return story_of(summary, parts.get("job", b""), parts, _unpack)

    def close(self) -> None:
        self._client.close()

    def _key(self, namespace: str, uid: str) -> str:
        return self._redis.key("history", _member(namespace, uid))


def _is_spoilt(error: Exception) -> bool:
    return "WRONGTYPE" in str(error)


def _member(namespace: str, uid: str) -> str:
    return f"{namespace}/{uid}"


def _pack(obj: Json) -> bytes:
    return packing.pack(orjson.dumps(obj))


def _unpack(data: bytes) -> Json:
    try:
        return read_object(packing.unpack(data, most_bytes=MOST_UNPACKED_BYTES)) if data else {}
    except ValueError:
        return {}
