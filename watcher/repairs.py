"""The leading watcher puts right what somebody else has written into Redis and what would stay for ever.

The watcher and not beat: beat's tasks are messages, and messages are what a broken Redis may no longer carry. The
queue's own keys with each resync, those of every job with each full resync, and at once where Redis refuses a command
of the writer, since a key of another type in a job's place stops the writing of all. Safe to run twice.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from tjworker.base import OperatorError
from tjworker.settings import Settings
from tjworker.store.work_queue import WorkQueue

log = structlog.get_logger(__name__)


class Repairs:
    def __init__(self, queue: WorkQueue, settings: Settings, now: Callable[[], float]) -> None:
        self._queue = queue
        self._lease_seconds = settings.lock_ttl_seconds
        self._every = settings.resync_seconds, settings.full_resync_seconds
        self._now = now
        self._next = now() + self._every[0]
        self._next_whole = now() + self._every[1]
        self._refused_at = -self._every[0]

    def step(self) -> bool | None:
        """True when every job's keys were looked through, None when it was not time yet. Raises what Redis' absence
        raises."""
        now = self._now()
        if now < self._next:
            return None
        whole = now >= self._next_whole
        self._repair(everything=whole)
        self._next = now + self._every[0]
        if whole:
            self._next_whole = now + self._every[1]
        return whole

    def refused(self) -> None:
        """Redis has refused a command: perhaps because of a key of another type, wherever it is."""
        if self._now() - self._refused_at < self._every[0]:
            return
        self._refused_at = self._now()
        try:
            self._repair(everything=True)
        except OperatorError as error:
            log.warning("cannot look Redis through", error=error.message)

    def _repair(self, *, everything: bool) -> None:
        repaired = self._queue.repair(lease_seconds=self._lease_seconds, everything=everything)
        if repaired:
            log.warning(
                "put entries of Redis right that would have held jobs up: unless a clock was set or a pass was paused"
                " for long, somebody else writes this Redis; change its passwords (docs/operations.md)",
                entries=repaired,
            )
