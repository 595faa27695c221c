"""How long the projection writer gathers changes before it writes them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from tjworker.base import JobKey
from watcher.event_queue import Batch

GATHER_SECONDS = 0.02
BUSY_SECONDS = 0.1
BUSY_JOBS, BUSY_CHANGES = 8, 50
"""The cluster is busy if this many jobs change within BUSY_SECONDS, or this many changes come. Jobs that come one after
another stay below it, so their changes are written at once."""


class Gathering:
    """In a busy cluster changes are written several at a time, because a call of Redis costs as much as ten changes in
    it; in a quiet one, each at once."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._wrote: deque[tuple[float, list[JobKey]]] = deque()
        """The writes of the last BUSY_SECONDS: when, and the job of each change."""

    def note_write(self, batches: Sequence[Batch]) -> None:
        self._wrote.append((self._now(), [one.change.key for batch in batches for one in batch.changes]))

    def seconds(self) -> float:
        """How long to gather changes before the next write."""
        while self._wrote and self._wrote[0][0] <= self._now() - BUSY_SECONDS:
            self._wrote.popleft()
        changed = [key for _, keys in self._wrote for key in keys]
        busy = len(changed) >= BUSY_CHANGES or len(set(changed)) >= BUSY_JOBS
        return GATHER_SECONDS if busy else 0.0
