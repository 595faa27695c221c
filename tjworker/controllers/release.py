"""The end of passes: give their keys back to the work queue, all in one round trip, and publish those that are due.

Safe to be cut off: a lease that is not given back lapses, and the resync finds a key whose task was not sent. An end
that Redis does not take is kept and sent with the process' next task. Otherwise the resync would count the pass as one
that died with its process, and after two outages in a row its job would be Stalled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from tjworker.base import JobKey, Transient
from tjworker.controllers.result import Result, Worked
from tjworker.lease import Lease
from tjworker.publisher import KeyPublisher
from tjworker.store.work_queue import Ending, FinishResult, WorkQueue

log = structlog.get_logger(__name__)

LOST = Result("lost the lease", unfit=True)
"""Another worker has the key: nothing is left to be given back."""
STALE_RETRY_SECONDS = 0.25
"""The watch usually shows an own write within milliseconds, and that queues the key. It may skip it."""
STALE_LONGEST_SECONDS = 15.0
"""Each further wait in a row is twice as long, up to this: a watch that is away for minutes must not keep workers
busy."""
STALE_PASSES_AT_ONCE = 8
"""In a row. After so many it waits by the clock alone: what was written into Redis from outside may make a view look
stale for as long as it stands there."""
STALE_KEYS_REMEMBERED = 1_000
"""Beyond that a process forgets them all: the next wait of a key is a short one again, which harms nothing."""
ENDINGS_KEPT = 1_000
"""Of passes that ended while Redis was away. A process has far fewer: it takes no key from a Redis that is away."""


class Releases:
    """One a process, for one thread. Its memory of stale passes is a shortcut, never needed."""

    def __init__(self, queue: WorkQueue, publisher: KeyPublisher) -> None:
        self._queue = queue
        self._publisher = publisher
        self._stale_passes: dict[JobKey, int] = {}
        """Key -> stale passes in a row, of this process."""
        self._kept: list[Ending] = []
        """Ends that Redis has not taken."""

    def give_back_kept(self) -> None:
        """Send the ends that Redis did not take when their passes ended. Raises when it still does not."""
        kept, self._kept = self._kept, []
        finished = self._finish(kept)
        self.publish([ending.claim.key for ending, done in zip(kept, finished, strict=True) if done.publish])

    def release(self, ended: Sequence[tuple[Lease, Result]]) -> list[Worked]:
        """Raises when Redis can finish none, as while it is away. What it can finish of several is published and told
        whatever comes of the others."""
        kept = [(lease, result) for lease, result in ended if result is not LOST]
        endings = [self._ending(lease, result) for lease, result in kept]
        finished = self._finish(endings)
        self.publish([ending.claim.key for ending, done in zip(endings, finished, strict=True) if done.publish])
        worked = [Worked(lease.key, LOST, lease.held_seconds) for lease, result in ended if result is LOST]
        for (lease, result), ending, done in zip(kept, endings, finished, strict=True):
            worked.append(Worked(lease.key, _told(result, ending, done), lease.held_seconds))
        return worked

    def publish(self, keys: Sequence[JobKey]) -> None:
        """The publisher keeps what it cannot send."""
        if not keys:
            return
        try:
            self._publisher.publish(keys)
        except Transient as error:
            log.warning("cannot publish keys yet", keys=len(keys), error=error.message)

    def _ending(self, lease: Lease, result: Result) -> Ending:
        if not result.stale:
            self._stale_passes.pop(lease.key, None)
        after_seconds = self._stale_wait(lease.key) if result.stale else result.after_seconds
        behind = result.behind and self._stale_passes[lease.key] <= STALE_PASSES_AT_ONCE
        return Ending(lease.claim, lease.written, result.again, after_seconds, result.failed, behind)

    def _finish(self, endings: Sequence[Ending]) -> list[FinishResult]:
        if not endings:
            return []
        try:
            return self._queue.finish_all(endings)
        except (Transient, SoftTimeLimitExceeded):
            # What the first call has finished is no longer ours, and stays as it is. Whether a task is missing for it,
            # the second says again.
            try:
                return self._queue.finish_all(endings)
            except Transient:
                self._kept = [*self._kept, *endings][-ENDINGS_KEPT:]
                raise

    def _stale_wait(self, key: JobKey) -> float:
        """News queues the key at once all the same."""
        if len(self._stale_passes) > STALE_KEYS_REMEMBERED:
            self._stale_passes.clear()
        times = self._stale_passes[key] = self._stale_passes.get(key, 0) + 1
        return min(STALE_LONGEST_SECONDS, STALE_RETRY_SECONDS * 2.0 ** min(times - 1, 16))


def _told(result: Result, ending: Ending, done: FinishResult) -> Result:
    if done.error is not None:
        log.error("cannot give a key back; its lease lapses", key=ending.claim.key, error=done.error.message)
        return replace(result, text=f"{result.text}; cannot be given back: {done.error.message}", terminal=True)
    if not result.failed:
        return result
    wait = min(done.backoff_seconds or 0, ending.after_seconds or math.inf)
    log.warning("reconcile failed, retrying", key=ending.claim.key, error=result.text, next_try_seconds=wait)
    return replace(result, text=f"{result.text}; next try in {wait:.0f} s")
