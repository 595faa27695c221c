"""Times as Kubernetes writes them: RFC 3339, UTC, whole seconds. Pure; reads no clock.

Times saturate at the ends of the years 1 to 9999: the API server takes the year 0 and writes years of five digits.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from tjworker.base import Json

EARLIEST = -62_135_596_800
"""0001-01-01T00:00:00Z"""
LATEST = 253_402_300_799
"""9999-12-31T23:59:59Z"""
_YEAR_BEYOND = re.compile(r"(-\d{4,}|0000|\d{5,})-\d\d-\d\dT", re.ASCII)


def to_rfc3339(unix_seconds: float) -> str:
    """1700000000.7 -> 2023-11-14T22:13:20Z (fractions are cut, as metav1.Time does)."""
    at = int(max(EARLIEST, min(LATEST, unix_seconds)))
    # C libraries differ in whether %Y pads the year 1.
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def from_rfc3339(text: str | None) -> float | None:
    """Unix seconds, None for an empty or garbled time: a wrong time in a status must not stop a job."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        beyond = _YEAR_BEYOND.match(text)
        return None if beyond is None else float(LATEST if len(beyond[1]) > 4 and beyond[1][0] != "-" else EARLIEST)
    # Kubernetes writes UTC: a time without a zone comes from an edit.
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


# Each event of a pod repeats most times of the event before it.
@lru_cache(maxsize=1024)
def unix_seconds(text: str | None) -> int | None:
    """Whole Unix seconds, as records of objects keep a metav1.Time, which has no fractions. None as of
    `from_rfc3339`."""
    at = from_rfc3339(text)
    return None if at is None else int(at)


def deletion_seconds(metadata: Json) -> int | None:
    """Unix seconds of metadata.deletionTimestamp, the end of the grace period; None unless the object is being
    deleted."""
    stamp = metadata.get("deletionTimestamp")
    if not stamp:
        return None
    at = unix_seconds(stamp) if isinstance(stamp, str) else None
    # The object is being deleted even if the time is garbled. This far away, no deletion counts as overdue.
    return LATEST if at is None else at
