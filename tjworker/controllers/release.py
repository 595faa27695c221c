"""Release the keys of ended passes to the work queue, all in one round trip, and publish those that are due.

Safe to be cut off: a lease that is not released lapses, and the resync finds a key whose task was not sent. A release
that Redis does not take is kept, and sent with the process' next task. Otherwise the resync would count the pass as one
that died with its process, and after two outages in a row the job would be Stalled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from tjworker.base import JobKey, Transient, backoff_seconds
from tjworker.controllers.pass_end import (
    AwaitWatch,
    Done,
    EndedPass,
    GiveUp,
    LeaseLost,
    PassEnd,
    QueueAgain,
    ReleasedEnd,
    RetryAfter,
    RetryWithBackoff,
)
from tjworker.execution.lease import Lease
from tjworker.publisher import KeyPublisher
from tjworker.store.work_queue import (
    AtOnce,
    FinishResult,
    NextPass,
    OnNews,
    OnOwnWrite,
    PassEnding,
    WithBackoff,
    WorkQueue,
)

log = structlog.get_logger(__name__)

STALE_RETRY_SECONDS = 0.25
"""Usually the watch shows an own write within milliseconds, and its event queues the key. This wait is for the event
that a watch skips."""
STALE_LONGEST_SECONDS = 15.0
"""The wait doubles with each stale pass in a row, up to this: a watch that is away for minutes must not keep workers
busy."""
STALE_PASSES_ON_EVENT = 8
"""After so many stale passes in a row a key comes back by the clock alone. Somebody who writes into Redis can make a
view look stale for ever, and each event would begin another useless pass."""
STALE_KEYS_REMEMBERED = 1_000
"""Beyond that the process forgets all of them. Their next waits are short again, which does no harm."""
ENDINGS_KEPT = 1_000
"""Releases that wait for Redis to come back. A process has far fewer: it takes no keys while Redis is away."""


class Releases:
    """One per process, used by one thread. Its memory of stale passes is an optimisation."""

    def __init__(self, queue: WorkQueue, publisher: KeyPublisher) -> None:
        self._queue = queue
        self._publisher = publisher
        self._stale_passes: dict[JobKey, int] = {}
        """Key -> stale passes in a row in this process."""
        self._unsent: list[PassEnding] = []
        """Endings that Redis did not take."""

    def send_unsent(self) -> None:
        """Send the endings that Redis did not take when their passes ended. Raises if it still does not."""
        # Emptied first: `_finish` keeps what it cannot send, and would add it to the old ones.
        endings, self._unsent = self._unsent, []
        self._finish(endings)

    def release(self, ended: Sequence[tuple[Lease, PassEnd]]) -> list[EndedPass]:
        """Release the keys of these passes, and return how the passes ended. Raises if Redis can release none of them,
        for instance while it is away. If it can release some, those are published and returned whatever happens to the
        others."""
        lost = [EndedPass(lease.key, end, lease.held_seconds) for lease, end in ended if isinstance(end, LeaseLost)]
        held = [(lease, end) for lease, end in ended if not isinstance(end, LeaseLost)]
        endings = [PassEnding(lease.claim, lease.written, self._next_pass(lease.key, end)) for lease, end in held]
        finished = self._finish(endings)
        return lost + [
            EndedPass(lease.key, _with_release(end, lease.key, done), lease.held_seconds)
            for (lease, end), done in zip(held, finished, strict=True)
        ]

    def publish(self, keys: Sequence[JobKey]) -> None:
        """Publish tasks for keys. The publisher keeps what it cannot send."""
        if not keys:
            return
        try:
            self._publisher.publish(keys)
        except Transient as error:
            log.warning("cannot publish keys yet", keys=len(keys), error=error.message)

    def _next_pass(self, key: JobKey, end: ReleasedEnd) -> NextPass:
        # Any other end shows that the watch has caught up: the next stale pass is a first one.
        if not isinstance(end, AwaitWatch):
            self._stale_passes.pop(key, None)
        match end:
            case Done(latest_seconds=seconds):
                return OnNews(seconds)
            case RetryAfter(seconds=seconds) | GiveUp(seconds=seconds):
                return OnNews(seconds)
            case QueueAgain():
                return AtOnce()
            case RetryWithBackoff(latest_seconds=seconds):
                return WithBackoff(seconds)
            case AwaitWatch(own_write=own_write):
                passes = self._count_stale_pass(key)
                wait = backoff_seconds(passes - 1, STALE_RETRY_SECONDS, STALE_LONGEST_SECONDS)
                return OnOwnWrite(wait) if own_write and passes <= STALE_PASSES_ON_EVENT else OnNews(wait)
            case _:
                assert_never(end)

    def _count_stale_pass(self, key: JobKey) -> int:
        """Stale passes of this key in a row, with this one."""
        if len(self._stale_passes) > STALE_KEYS_REMEMBERED:
            self._stale_passes.clear()
        self._stale_passes[key] = self._stale_passes.get(key, 0) + 1
        return self._stale_passes[key]

    def _finish(self, endings: Sequence[PassEnding]) -> list[FinishResult]:
        """Release the keys and publish those that are due. Keeps the endings if Redis does not take them."""
        if not endings:
            return []
        try:
            finished = self._queue.finish_all(endings)
        except (Transient, SoftTimeLimitExceeded):
            # The first call may have released keys although its answer was lost. A second call leaves those as they
            # are, and says again which of them need a task.
            try:
                finished = self._queue.finish_all(endings)
            except Transient:
                self._unsent = [*self._unsent, *endings][-ENDINGS_KEPT:]
                raise
        self.publish([ending.claim.key for ending, done in zip(endings, finished, strict=True) if done.publish])
        return finished


def _with_release(end: ReleasedEnd, key: JobKey, done: FinishResult) -> PassEnd:
    """The end of a pass, with what its release added: an error, or when the next try is."""
    if done.error is not None:
        # Redis refused this key alone, for instance because a stranger wrote another type. The others are released.
        log.error("cannot give a key back; its lease lapses", key=key, error=done.error.message)
        return GiveUp(f"{end.text}; cannot be given back: {done.error.message}")
    if not isinstance(end, RetryWithBackoff):
        return end
    wait = min(done.backoff_seconds or 0, end.latest_seconds or math.inf)
    log.warning("reconcile failed, retrying", key=key, error=end.text, next_try_seconds=wait)
    return replace(end, text=f"{end.text}; next try in {wait:.0f} s")
