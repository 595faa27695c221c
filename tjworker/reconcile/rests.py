"""How long a replica rests before it is tried once more: doubling, to 5 minutes. Pure."""

from __future__ import annotations

TURNED_AWAY_SECONDS = 20.0
LONGEST_SECONDS = 300.0


def rest_seconds(times: int, first_seconds: float = TURNED_AWAY_SECONDS) -> float:
    """`times`: how many rests there were before."""
    return min(LONGEST_SECONDS, first_seconds * 2.0 ** min(times, 10))
