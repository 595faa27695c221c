"""The work queue in Redis: one Lua script a call (large batches: one for each part). Keeps no state. Thread-safe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import redis

from tjworker.base import JobKey
from tjworker.store.certificate import certificate_ends
from tjworker.store.projection import View
from tjworker.store.redis_commands import (
    KEYS_PER_CALL,
    RedisCommands,
    batches,
    flat,
    job_keys,
    milliseconds,
    text,
    version,
)
from tjworker.store.redis_projection import RedisProjection, ask_view, read_view
from tjworker.store.redis_repair import repair
from tjworker.store.work_queue import NOTHING_WRITTEN, Claim, FinishResult, QueueStats, Written


class RedisWorkQueue:
    """A failed key waits from `retry_base_seconds`, doubled with each failure, up to `retry_max_seconds`."""

    def __init__(
        self, commands: RedisCommands, *, retry_base_seconds: float = 1, retry_max_seconds: float = 300
    ) -> None:
        self._redis = commands
        self._projection = RedisProjection(commands)
        self._retry = (retry_base_seconds, retry_max_seconds)

    def add(self, keys: Iterable[JobKey]) -> list[JobKey]:
        publish: list[JobKey] = []
        for part in batches(list(keys), KEYS_PER_CALL):
            publish += job_keys(self._redis.run("add", *part))
        return publish

    def add_after(self, key: JobKey, seconds: float) -> None:
        self._redis.run("add_after", key, seconds)

    def take_due(self, limit: int) -> list[JobKey]:
        return job_keys(self._redis.run("take_due", limit))

    def acquire(self, key: JobKey, owner: str, ttl_seconds: float) -> Claim | None:
        return _claim(self._redis.run("acquire", key, owner, milliseconds(ttl_seconds)), owner)

    def acquire_view(self, key: JobKey, owner: str, ttl_seconds: float) -> tuple[Claim, View] | None:
        acquire = self._redis.scripts["acquire"]

        def in_one_trip() -> list[Any]:
            pipe = self._redis.client.pipeline(transaction=True)
            pipe.evalsha(acquire.sha, 0, self._redis.prefix, key, owner, milliseconds(ttl_seconds))
            ask_view(self._redis, pipe, key)
            return pipe.execute()

        with self._redis.mapped():
            try:
                taken, *answer = in_one_trip()
            except redis.exceptions.NoScriptError:
                # A new Redis, or SCRIPT FLUSH: nothing was acquired.
                self._redis.client.script_load(acquire.script)
                taken, *answer = in_one_trip()
        claim = _claim(taken, owner)
        if claim is None:
            return None
        # The key that the task names has been read in the same trip. While others queue it may be another's turn.
        return claim, read_view(key, answer, {}) if claim.key == key else self._projection.view(claim.key)

    def renew(self, claim: Claim, ttl_seconds: float) -> None:
        self._redis.run("renew", claim.key, claim.token, milliseconds(ttl_seconds))

    def finish(
        self,
        claim: Claim,
        written: Written = NOTHING_WRITTEN,
        *,
        again: bool = False,
        after_seconds: float | None = None,
        failed: bool = False,
    ) -> FinishResult:
        publish, wait, failures = self._redis.run(
            "finish",
            claim.key,
            claim.token,
            int(again),
            "" if after_seconds is None else after_seconds,
            int(failed),
            *self._retry,
            *_pairs(written),
        )
        return FinishResult(publish == 1, float(wait) if wait else None, int(failures))

    def raise_min_observed(self, claim: Claim, written: Written) -> None:
        self._redis.run("raise_min_observed", claim.key, claim.token, *_pairs(written))

    def resync(self, *, lost_after_seconds: float, everything: bool) -> list[JobKey]:
        return job_keys(self._redis.run("resync", lost_after_seconds, int(everything)))

    def repair(self, *, lease_seconds: float, everything: bool) -> int:
        return repair(self._redis, lease_seconds=lease_seconds, everything=everything)

    def once(self, name: str, period_seconds: float) -> bool:
        key = self._redis.key("once", name)
        with self._redis.mapped():
            period = milliseconds(period_seconds)
            if self._redis.client.set(key, 1, nx=True, px=period):
                return True
            # One that ends later than its period, or never, is not ours: it would stop the task. It gets the period's
            # end, and one caller.
            return bool(self._redis.client.pexpire(key, period, lt=True))

    def certificate_ends(self) -> float | None:
        return self._redis.read(lambda: certificate_ends(self._redis.client))

    def stats(self) -> QueueStats:
        queued, delayed, running, oldest, unfinished, failing = self._redis.read(lambda: self._redis.run("stats"))
        return QueueStats(queued, delayed, running, float(oldest), unfinished, failing)


def _claim(answer: Any, owner: str) -> Claim | None:
    if answer is None:
        return None
    token, key, *deaths = answer  # Redis ends a list before what is no number
    # A token that is no number (`inf`: somebody else wrote `fence`) is nobody's: the pass is fenced off at its end.
    return Claim(JobKey(text(key)), version(token), owner, deaths[0] if deaths else 0)


def _pairs(written: Written) -> list[Any]:
    """As `finish.lua` and `raise_min_observed.lua` read them."""
    return [len(written.gone), *flat(written.gone), *flat(written.versions)]
