"""Find keys whose Celery task was lost, and publish them again; from time to time, every unfinished job. Safe to run
twice: a second task for a key finds nothing queued.

A task is a hint that may be lost with Redis, a worker or a connection. The work queue in the store knows what is still
to be done.
"""

from __future__ import annotations

from collections.abc import Sequence

from tjworker.base import JobKey
from tjworker.publisher import KeyPublisher
from tjworker.settings import Settings, turn_seconds
from tjworker.store.work_queue import WorkQueue


class Resync:
    """One a process; it keeps nothing between runs."""

    def __init__(self, queue: WorkQueue, publisher: KeyPublisher, settings: Settings) -> None:
        self._queue = queue
        self._publisher = publisher
        self._settings = settings

    def run(self) -> str:
        """What the run came to. Raises Transient when Redis is away."""
        if not self._queue.once("resync", turn_seconds(self._settings.resync_seconds)):
            return "another beat was first"
        everything = self._queue.once("full-resync", self._settings.full_resync_seconds)
        published = self._publisher.publish(self._observe(everything))
        return f"{published} published{', everything' if everything else ''}"

    def _observe(self, everything: bool) -> Sequence[JobKey]:
        """The store decides in the same script in which it looks: a key that a worker finishes between the two would be
        published for nothing."""
        return self._queue.resync(lost_after_seconds=self._settings.resync_seconds, everything=everything)
