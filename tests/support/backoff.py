"""How long a key waits after failures. Pure. `scripts/finish.lua` computes the same; a test compares the two."""

from __future__ import annotations

import hashlib

from tjworker.base import JobKey, backoff_seconds


def key_backoff_seconds(key: JobKey, failures: int, *, base_seconds: float, max_seconds: float) -> float:
    """The wait doubles with each failure in a row, from `base_seconds` to `max_seconds`, times 0.8 to 1.2."""
    # The jitter depends on key and count alone. Keys that failed in the same outage return at different times, and a
    # test run sees the same times again.
    digest = hashlib.sha1(f"{key}:{failures}".encode(), usedforsecurity=False).hexdigest()
    spread = int(digest[:8], 16) / 2**32
    return backoff_seconds(failures - 1, base_seconds, max_seconds) * (0.8 + 0.4 * spread)
