"""Celery's consumer (the loop of a worker's main process) with task events sent some at a time, and never long away from a
broker that is back. The setting `worker_consumer`.

Nothing else is changed: the events, their order and their times are Celery's. A worker's main process takes 1.1 ms a no-op
task instead of 1.7 (docs/benchmarks.md).
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer

EVENTS_GATHER_SECONDS = 0.2
"""Flower is behind by that much; the times that it shows are in the events. Celery's dispatcher sends a full buffer (24) at
once."""

RECONNECT_MOST_SECONDS = 4.0
"""Between two tries to reach the broker. Celery's waits grow to 30 s, has no setting for it, and for so long would a worker
take no task after Redis has been away for some minutes."""


class Consumer(CeleryConsumer):  # type: ignore[misc,unused-ignore]
    """Three events a task, each published alone, are a third of what a worker's main process does. They go out together,
    as one message, a moment later."""

    _flush_at_seconds = 0.0

    def on_send_event_buffered(self) -> None:
        # A moment in time, not a flag: a timer that a lost connection has cancelled is set again by a later event.
        now = monotonic()
        if self.hub and now >= self._flush_at_seconds:
            self._flush_at_seconds = now + EVENTS_GATHER_SECONDS
            self.hub.call_later(EVENTS_GATHER_SECONDS, self._flush_events)

    def ensure_connected(self, conn: Any) -> Any:
        conn.ensure_connection = partial(conn.ensure_connection, interval_max=RECONNECT_MOST_SECONDS)
        return super().ensure_connected(conn)

    def shutdown(self) -> None:
        """After the last task has ended."""
        self._flush_events()
        super().shutdown()
