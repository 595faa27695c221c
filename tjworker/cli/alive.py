"""Which workers answer and take no task. A ping does not tell: a worker that has stopped consuming still answers it,
and no job moves. So workers are asked what they consume. (Their own /healthz says the same of one: `telemetry`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Consumed = Mapping[str, Sequence[Mapping[str, Any]]]
"""Worker -> the queues that it consumes, as Celery's `inspect active_queues` answers."""


def idlers(consumed: Consumed, queue: str) -> list[str]:
    """The workers that answer and take nothing from this queue."""
    return sorted(name for name, queues in consumed.items() if queue not in {q.get("name") for q in queues or ()})
