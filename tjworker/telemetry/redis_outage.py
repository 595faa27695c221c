"""Logs an outage of Redis once, and its end once, for a process of Celery's. Between them it drops what Celery's own
loggers log at every try. Thread-safe.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

import structlog

log = structlog.get_logger(__name__)


class RedisOutage(logging.Filter):
    """`loggers`: names of the loggers that are silent while Redis is away. Their other errors are dropped, too: when a
    worker's consumer restarts, each of its steps logs its end."""

    def __init__(self, loggers: Iterable[str], now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._mutex = threading.Lock()
        self._since: float | None = None
        for name in loggers:
            logging.getLogger(name).addFilter(self)

    def fails(self, error: BaseException) -> None:
        with self._mutex:
            first = self._since is None
            if first:
                self._since = self._now()
        # Outside the lock: writing a line may block.
        if first:
            words = " ".join(str(error).split())[:300] or type(error).__name__
            log.warning("Redis cannot be used, trying again; nothing is lost", error=words)

    def works(self) -> None:
        # Without the lock: this is called every second.
        if self._since is None:
            return
        with self._mutex:
            since, self._since = self._since, None
        if since is not None:
            log.info("Redis can be used again", away_seconds=round(self._now() - since, 1))

    def filter(self, record: logging.LogRecord) -> bool:
        return self._since is None


class OneLine(logging.Filter):
    """Replaces the traceback of an error by one line, for loggers of libraries that retry after an error of Redis."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            record.msg, record.args = f"{record.getMessage()}: {' '.join(str(error).split())[:300]}", ()
            record.exc_info = record.exc_text = None
        return True
