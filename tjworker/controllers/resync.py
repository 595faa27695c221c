"""Publishes keys whose Celery task was lost; from time to time, every unfinished job. Safe to run twice: a second task
for a key finds nothing queued.

A task is a hint that may be lost with Redis, a worker or a connection. The work queue in the store knows which keys are
due.
"""

from __future__ import annotations

from collections.abc import Sequence

from tjworker.base import JobKey
from tjworker.publisher import KeyPublisher
from tjworker.settings import Settings, turn_seconds
from tjworker.store.port import Store


class Resync:
    """One per process. Keeps nothing between runs."""

    def __init__(self, store: Store, publisher: KeyPublisher, settings: Settings) -> None:
        self._queue, self._maintenance = store.queue, store.maintenance
        self._publisher = publisher
        self._settings = settings

    def run(self) -> str:
        """Publish what was lost. Returns a line for Flower. Raises Transient if Redis is away."""
        if not self._maintenance.once("resync", turn_seconds(self._settings.resync_seconds)):
            return "another beat was first"
        # From time to time all of them: it finds a job whose change no watch has shown, or whose timer Redis lost.
        everything = self._maintenance.once("full-resync", self._settings.full_resync_seconds)
        published = self._publisher.publish(self._observe(everything))
        return f"{published} published{', everything' if everything else ''}"

    def _observe(self, everything: bool) -> Sequence[JobKey]:
        # One script looks and decides: a key that a worker finishes in between would be published for nothing.
        return self._queue.resync(lost_after_seconds=self._settings.resync_seconds, everything=everything)
