"""Logs an outage of the API server once, and its end once, however many reflectors notice. Thread-safe."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


class Outage:
    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._since = 0.0

    def fails(self, source: str, error: str) -> None:
        with self._lock:
            first = not self._failing
            self._failing.add(source)
            if first:
                self._since = self._now()
        if first:
            log.warning("the API server fails, trying again; nothing is lost", resource=source, error=error)
        else:
            log.debug("list or watch failed", resource=source, error=error)

    def works(self, source: str) -> None:
        # Without the lock: reflectors call this for each answer.
        if source not in self._failing:
            return
        with self._lock:
            self._failing.discard(source)
            over = not self._failing
            seconds = self._now() - self._since
        if over:
            log.info("the API server works again", failed_for_seconds=round(seconds, 1))
