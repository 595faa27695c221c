"""Finds workers that answer but take no task: they stopped consuming the queue, and still answer a ping. So the check
asks workers which queues they consume. (A worker's own /healthz checks the same, see `telemetry`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Consumed = Mapping[str, Sequence[Mapping[str, Any]]]
"""Worker -> the queues that it consumes, as Celery's `inspect active_queues` answers."""


def idlers(consumed: Consumed, queue: str) -> list[str]:
    """The workers that answer and take nothing from this queue."""
    return sorted(name for name, queues in consumed.items() if queue not in {q.get("name") for q in queues or ()})
