"""The work queue in memory: answers as `redis_work_queue.py` does; the contract suite runs on both. Thread-safe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from tests.support.backoff import key_backoff_seconds
from tests.support.memory_projection import MemoryProjection
from tests.support.memory_redis import Lock, OverRedis, tasks_for, whole
from tjworker.base import KEYS_PER_TASK, RECORDS_PER_TASK, GroupResource, JobKey, OperatorError
from tjworker.store.keys import REST_TTL_SECONDS
from tjworker.store.work_queue import (
    AtOnce,
    Claim,
    FinishResult,
    NextPass,
    OnOwnWrite,
    PassEnding,
    QueueStats,
    Taken,
    WithBackoff,
    Written,
)


class MemoryWorkQueue(OverRedis):
    @whole
    def add(self, keys: Iterable[JobKey]) -> list[JobKey]:
        return self._redis.to_publish([key for key in keys if self._redis.enqueue(key)])

    @whole
    def add_after(self, key: JobKey, seconds: float) -> None:
        due = self._redis.clock() + seconds
        self._redis.tables.delayed[key] = min(due, self._redis.tables.delayed.get(key, due))

    @whole
    def take_due(self, limit: int) -> list[JobKey]:
        due = sorted((at, key) for key, at in self._redis.tables.delayed.items() if at <= self._redis.clock())[:limit]
        for _, key in due:
            del self._redis.tables.delayed[key]
        return self._redis.to_publish([key for _, key in due if self._redis.enqueue(key)])

    def _acquire(self, named: JobKey, owner: str, ttl_seconds: float, most: int) -> list[Claim]:
        tables = self._redis.tables
        claims: list[Claim] = []
        records = 0
        self._redis.line_up_left_out(named)
        while len(claims) < most and tables.line:
            turn = min(tables.line.values())
            key = named if tables.line.get(named) == turn else self._first(turn)
            more = (key in tables.jobs) + len(tables.children.get(key, ()))
            deaths = tables.deaths.get(key, 0)
            if claims and (deaths or records + more > RECORDS_PER_TASK):
                break
            tables.turn = turn
            self._redis.leave_line(key)
            if self._redis.holder(key) is None and tables.dirty.pop(key, None) is not None:
                claims.append(self._lease(key, owner, ttl_seconds))
                records += more
                if deaths:
                    break
        return claims

    def _first(self, turn: int) -> JobKey:
        return min(key for key, its in self._redis.tables.line.items() if its == turn)

    def _lease(self, key: JobKey, owner: str, ttl_seconds: float) -> Claim:
        tables = self._redis.tables
        tables.fence = max(tables.fence + 1, round(self._redis.clock() * 1_000_000))
        ends = self._redis.clock() + ttl_seconds
        tables.locks[key] = Lock(tables.fence, owner, ends)
        tables.running[key] = ends
        tables.delayed.pop(key, None)
        tables.news.pop(key, None)
        return Claim(key, tables.fence, owner, tables.deaths.get(key, 0))

    @whole
    def acquire_views(self, key: JobKey, owner: str, ttl_seconds: float, most: int) -> Taken:
        claims = self._acquire(key, owner, ttl_seconds, most)
        left = len(claims) < KEYS_PER_TASK and self._redis.tasks_missing() > 0
        publish = [self._first(min(self._redis.tables.line.values()))] if left else []
        projection = MemoryProjection(self._redis)
        at = self._redis.clock() if claims else 0.0
        return Taken([(claim, projection.view(claim.key)) for claim in claims], publish, at)

    @whole
    def renew(self, claim: Claim, ttl_seconds: float) -> None:
        self._renew(claim, ttl_seconds)

    def _renew(self, claim: Claim, ttl_seconds: float) -> None:
        self._redis.check_holder(claim)
        ends = self._redis.clock() + ttl_seconds
        self._redis.tables.locks[claim.key].ends = ends
        self._redis.tables.running[claim.key] = ends

    @whole
    def renew_all(self, claims: Sequence[Claim], ttl_seconds: float) -> list[OperatorError | None]:
        found: list[OperatorError | None] = []
        for claim in claims:
            try:
                self._renew(claim, ttl_seconds)
                found.append(None)
            except OperatorError as error:
                found.append(error)
        if claims and None not in found:
            raise next(error for error in found if error)
        return found

    @whole
    def finish_all(self, endings: Sequence[PassEnding]) -> list[FinishResult]:
        return [self._finish(ending.claim, ending.written, ending.next_pass) for ending in endings]

    def _finish(self, claim: Claim, written: Written, next_pass: NextPass) -> FinishResult:
        tables, key = self._redis.tables, claim.key
        self._redis.raise_min_observed(key, written)
        if self._redis.holder(key) != claim.token:
            self._redis.take_back_death(key)
            return FinishResult(key in tables.line and self._redis.tasks_missing() > 0)
        self._redis.expect_echoes(key, written)
        del tables.locks[key]
        tables.running.pop(key, None)
        tables.deaths.pop(key, None)
        backoff, failures = None, 0
        if isinstance(next_pass, WithBackoff):
            failures = tables.failures[key] = tables.failures.get(key, 0) + 1
            backoff = key_backoff_seconds(key, failures, base_seconds=1, max_seconds=300)
            self.add_after(key, backoff)
        else:
            tables.failures.pop(key, None)
        if not isinstance(next_pass, AtOnce) and next_pass.latest_seconds is not None:
            self.add_after(key, next_pass.latest_seconds)
        again = isinstance(next_pass, AtOnce) or (isinstance(next_pass, OnOwnWrite) and self._has_caught_up(key))
        changed = bool(tables.news.pop(key, None))
        publish = changed or again or key in tables.dirty
        if publish:
            tables.dirty[key] = self._redis.clock()
            self._redis.line_up(key)
        return FinishResult(publish and self._redis.tasks_missing() > 0, backoff, failures)

    def _has_caught_up(self, key: JobKey) -> bool:
        behind = self._behind(key)
        for resource, rv in behind:
            self._redis.facts(self._redis.tables.echo, key).pop(f"{resource}:{rv}", None)
        return not behind

    def _behind(self, key: JobKey) -> list[tuple[str, int]]:
        versions = self._redis.facts(self._redis.tables.min_observed, key)
        return [(of, rv) for of, rv in versions.items() if rv > self._redis.seen(key, GroupResource(of))]

    @whole
    def raise_min_observed(self, claim: Claim, written: Written) -> None:
        self._redis.raise_min_observed(claim.key, written)
        self._redis.check_holder(claim)
        self._redis.expect_echoes(claim.key, written)

    @whole
    def note_rest(self, key: JobKey, version: str) -> None:
        if key in self._redis.tables.jobs:
            self._redis.tables.rests[key] = version, self._redis.clock() + REST_TTL_SECONDS
            if not self._behind(key):
                self._redis.tables.min_observed.pop(key, None)

    @whole
    def rests_at(self, key: JobKey) -> str:
        version, ends = self._redis.tables.rests.get(key, ("", 0.0))
        return version if self._redis.clock() < ends else ""

    # -- resync ------------------------------------------------------------------------------------
    @whole
    def resync(self, *, lost_after_seconds: float, everything: bool) -> list[JobKey]:
        tables, now = self._redis.tables, self._redis.clock()
        publish: dict[JobKey, None] = {}
        for _, key in sorted((ends, key) for key, ends in tables.running.items() if ends <= now):
            if self._redis.holder(key) is None:
                self._redis.count_death(key)
                again = self._redis.line_up(key) if key in tables.dirty else self._redis.enqueue(key)
                if again:
                    publish[key] = None
        for key in self._lost(publish.keys(), now - lost_after_seconds):
            publish[key] = None
        if everything:
            for key in sorted(tables.unfinished):
                if key not in tables.jobs:
                    tables.unfinished.discard(key)
                elif self._redis.enqueue(key):
                    publish[key] = None
        return list(publish)

    def _lost(self, taken: Collection[JobKey], long_ago: float) -> Sequence[JobKey]:
        tables = self._redis.tables
        waited = 0
        for _, key in sorted((since, key) for key, since in tables.dirty.items() if since <= long_ago):
            self._redis.line_up_left_out(key)
            waited += key in tables.line and key not in taken
        missing = max(0, self._redis.tasks_missing() - tasks_for(len(taken)))
        lost = min(missing, max(tasks_for(waited), tables.missing))
        tables.missing = missing - lost
        in_turn = [key for _, key in sorted((turn, key) for key, turn in tables.line.items()) if key not in taken]
        return in_turn[: lost * KEYS_PER_TASK]

    @whole
    def stats(self) -> QueueStats:
        tables, now = self._redis.tables, self._redis.clock()
        return QueueStats(
            queued=len(tables.dirty),
            delayed=len(tables.delayed),
            running=sum(ends >= now for ends in tables.running.values()),
            oldest_seconds=max(0.0, now - min(tables.dirty.values(), default=now)),
            unfinished=len(tables.unfinished),
            failing=len(tables.failures),
        )
