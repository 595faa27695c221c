"""How long a replica rests before its next attempt: doubling, up to 5 minutes. A long run resets the count. Pure."""

from __future__ import annotations

from tjworker.api.observed import PodRecord
from tjworker.base import backoff_seconds
from tjworker.reconcile.failures import ended_at

CRASHED_SECONDS = 10.0
TURNED_AWAY_SECONDS = 20.0
LONGEST_SECONDS = 300.0
FORGIVEN_AFTER_SECONDS = 600.0


def rest_seconds(times: int, first_seconds: float = TURNED_AWAY_SECONDS) -> float:
    """Seconds of the next rest. `times`: how many rests there were before."""
    return backoff_seconds(times, first_seconds, LONGEST_SECONDS)


def ran_long(pod: PodRecord, main: str | None = None) -> bool:
    """True if the pod ran so long that earlier failures no longer count. `main` as in `counted_names`."""
    # Both times are from the node's clock.
    began, ended = pod.started_at, ended_at(pod, main)
    return began is not None and ended is not None and ended - began >= FORGIVEN_AFTER_SECONDS
