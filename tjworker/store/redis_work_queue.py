"""The work queue in Redis: one Lua script per call, or one per part of a large batch. Keeps no state. Thread-safe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, assert_never

from tjworker.base import JobKey, OperatorError, Terminal
from tjworker.store.projection import View
from tjworker.store.redis_commands import (
    KEYS_PER_CALL,
    RedisCommands,
    as_hash,
    batches,
    flat,
    job_keys,
    milliseconds,
    text,
    version,
)
from tjworker.store.redis_projection import RedisProjection
from tjworker.store.work_queue import (
    AtOnce,
    Claim,
    FinishResult,
    NextPass,
    OnNews,
    OnOwnWrite,
    PassEnding,
    QueueStats,
    Taken,
    WithBackoff,
    Written,
)

_WITHOUT_VIEW = 3
"""Length of a taken key without its view: token, key, deaths. With its view, three hashes follow."""


class RedisWorkQueue:
    """A failed key waits from `retry_base_seconds`, doubled with each failure, up to `retry_max_seconds`."""

    def __init__(
        self, commands: RedisCommands, *, retry_base_seconds: float = 1, retry_max_seconds: float = 300
    ) -> None:
        self._redis = commands
        self._projection = RedisProjection(commands)
        # Scripts compute the backoff from a count in Redis. client-go's `TypedItemExponentialFailureRateLimiter` counts
        # in its process; here the next try may be another worker's.
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

    def acquire_views(self, key: JobKey, owner: str, ttl_seconds: float, most: int) -> Taken:
        # Leases and views in one script: a view that was read before the lease could lack the last holder's writes.
        answer = self._redis.run("acquire", key, owner, milliseconds(ttl_seconds), most)
        if answer is None:
            return Taken()
        publish, *shared, at = answer[:4]
        taken = answer[4:]
        claims = [_parse_claim(one, owner) for one in taken]
        try:
            views = self._read_views(claims, shared, taken)
        except OperatorError:
            # Release the keys. Otherwise they would wait until their leases lapse, and count as deaths.
            with suppress(OperatorError):
                self.finish_all([PassEnding(claim, next_pass=WithBackoff()) for claim in claims])
            raise
        return Taken(list(zip(claims, views, strict=True)), job_keys([publish] if publish else []), float(at))

    def _read_views(self, claims: Sequence[Claim], shared: Sequence[Any], taken: Sequence[Sequence[Any]]) -> list[View]:
        """The views in the answer of `acquire.lua`. The view of a big job is not in it, and is read here."""
        keys = [claim.key for claim in claims]
        # A view of thousands of pods is megabytes. Redis would copy it from Lua's tables into its answer while every
        # other client waits.
        if len(taken[0]) == _WITHOUT_VIEW:
            return self._projection.views(keys)
        progress, writer = shared
        return self._projection.read_views(
            keys, [as_hash(progress), writer, *(as_hash(h) for t in taken for h in t[3:])]
        )

    def renew(self, claim: Claim, ttl_seconds: float) -> None:
        self._redis.run("renew", claim.key, claim.token, milliseconds(ttl_seconds))

    def renew_all(self, claims: Sequence[Claim], ttl_seconds: float) -> list[OperatorError | None]:
        calls = [(claim.key, claim.token, milliseconds(ttl_seconds)) for claim in claims]
        # A lease that has lapsed must not end the renewal of the other leases of the task.
        answers = self._redis.run_each("renew", calls)
        return [answer if isinstance(answer, OperatorError) else None for answer in answers]

    def finish_all(self, endings: Sequence[PassEnding]) -> list[FinishResult]:
        calls = [self._finish_args(ending) for ending in endings]
        return [_parse_result(answer) for answer in self._redis.run_each("finish", calls)]

    def _finish_args(self, ending: PassEnding) -> list[Any]:
        """ARGV of `finish.lua`, after the prefix."""
        claim = ending.claim
        return [
            claim.key,
            claim.token,
            *_next_pass_args(ending.next_pass),
            *self._retry,
            *_written_args(ending.written),
        ]

    def raise_min_observed(self, claim: Claim, written: Written) -> None:
        self._redis.run("raise_min_observed", claim.key, claim.token, *_written_args(written))

    def note_rest(self, key: JobKey, version: str) -> None:
        self._redis.run("note_rest", key, version)

    def rests_at(self, key: JobKey) -> str:
        try:
            noted: Any = self._redis.read(lambda: self._redis.client.get(self._redis.key("rests", key)))
            return text(noted or b"")
        except Terminal:
            # A stranger has written another type.
            return ""

    def resync(self, *, lost_after_seconds: float, everything: bool) -> list[JobKey]:
        return job_keys(self._redis.run("resync", lost_after_seconds, int(everything)))

    def stats(self) -> QueueStats:
        queued, delayed, running, oldest, unfinished, failing = self._redis.read(lambda: self._redis.run("stats"))
        return QueueStats(queued, delayed, running, float(oldest), unfinished, failing)


def _next_pass_args(next_pass: NextPass) -> tuple[str, float | str]:
    """The word and the seconds by which `finish.lua` knows when the next pass begins."""
    match next_pass:
        case OnNews(latest_seconds=seconds):
            word = "on news"
        case AtOnce():
            word, seconds = "at once", None
        case WithBackoff(latest_seconds=seconds):
            word = "with backoff"
        case OnOwnWrite(latest_seconds=seconds):
            word = "on own write"
        case _:
            assert_never(next_pass)
    return word, "" if seconds is None else seconds


def _parse_claim(taken: Sequence[Any], owner: str) -> Claim:
    # If a stranger has written `fence`, the token may be no number (`inf`). It becomes 0 then, and the pass is fenced
    # at its end. Redis ends the list before such a value, so `deaths` may be missing.
    token, key, *deaths = taken[:_WITHOUT_VIEW]
    return Claim(JobKey(text(key)), version(token), owner, deaths[0] if deaths else 0)


def _parse_result(answer: Any) -> FinishResult:
    if isinstance(answer, OperatorError):
        return FinishResult(False, error=answer)
    publish, wait, failures = answer
    return FinishResult(publish == 1, float(wait) if wait else None, int(failures))


def _written_args(written: Written) -> list[Any]:
    """The writes as ARGV of `finish.lua` and `raise_min_observed.lua`."""
    return [len(written.gone), *flat(written.gone), *flat(written.versions)]
