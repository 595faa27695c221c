"""Celery's consumer (the loop of a worker's main process), with two changes: task events go out in groups, and the wait
between two tries to reach the broker stays short. The app selects it with the setting `worker_consumer`.

The events, their order and their times stay Celery's. A worker's main process takes 1.1 ms a no-op task instead of 1.7
(docs/benchmarks.md).
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer

EVENTS_GATHER_SECONDS = 0.2
"""Flower shows a task that much later, with its true times, which the events carry. Celery's dispatcher sends a full
buffer (24 events) at once."""

RECONNECT_MOST_SECONDS = 4.0
"""Between two tries to reach the broker. Celery's own waits grow to 30 s without a setting for it: after some minutes
without Redis a worker would take no task for that long."""


class Consumer(CeleryConsumer):  # type: ignore[misc,unused-ignore]
    """Three events a task, each its own message, are a third of the main process's work. Here they share a message."""

    _flush_at_seconds = 0.0

    def on_send_event_buffered(self) -> None:
        # A time instead of a flag: a lost connection cancels the timer, and a later event sets it again.
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
