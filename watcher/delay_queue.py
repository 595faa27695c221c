"""Queues the delayed keys of the work queue when their delay is over, and adds delays for the TTLs of finished jobs.

The leading watcher drains the sorted set. Celery's ETA is never used for this: Redis' visibility timeout would deliver
such a task twice. Safe to run twice.
"""

from __future__ import annotations

from functools import partial

from tjworker.base import JobKey
from tjworker.store.port import Store
from watcher.projection import Projected
from watcher.redis_retry import RedisRetry

DUE_LIMIT = 1_000
OVERDUE_SECONDS = 60.0


class DelayQueue:
    def __init__(self, store: Store, redis: RedisRetry) -> None:
        self._queue, self._maintenance = store.queue, store.maintenance
        self._redis = redis
        self._unwritten: dict[JobKey, float] = {}
        self._expiring: dict[JobKey, float] = {}
        """Each finished job with a TTL -> when the TTL is over, in Unix seconds."""

    def note(self, job: Projected) -> None:
        if job.expires_at is None:
            self._expiring.pop(job.change.key, None)
        else:
            self._expiring[job.change.key] = self._unwritten[job.change.key] = job.expires_at

    def write_noted(self) -> None:
        """Add a delay for each finished job that was noted."""
        # A resync does not queue finished jobs, so only these delays bring them back when their TTL is over. Redis may
        # lose the delays: they are written again whenever the job is seen.
        unwritten, self._unwritten = self._unwritten, {}
        if not unwritten:
            return
        now = self._redis(self._maintenance.time)
        for key, at in unwritten.items():
            self._redis(partial(self._queue.add_after, key, max(0.0, at - now)))

    def queue_overdue(self) -> list[JobKey]:
        """Queue the finished jobs that still exist although their TTL was over long ago: somebody deleted their delay,
        or their deletion fails. Returns the keys to publish."""
        if not self._expiring:
            return []
        long_ago = self._redis(self._maintenance.time) - OVERDUE_SECONDS
        overdue = sorted(key for key, at in self._expiring.items() if at < long_ago)
        return self._redis(partial(self._queue.add, overdue)) if overdue else []

    def drain(self) -> list[JobKey]:
        """Queue the keys whose delay is over. Returns the keys to publish."""
        return self._redis(partial(self._queue.take_due, DUE_LIMIT))
