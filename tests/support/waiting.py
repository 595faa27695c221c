"""How tests wait for what other threads and processes do: for the thing itself, and as long as a slow machine needs.

A limit only ends a test that fails, so it costs nothing to be generous: a tight one measures the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.01


def until(
    what: str,
    condition: Callable[[], object],
    within_seconds: float = PATIENCE_SECONDS,
    *,
    context: Callable[[], str] = str,
    look_seconds: float = LOOK_SECONDS,
) -> None:
    """Return once the condition holds. `context` adds to the message of a failure."""
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_seconds:.0f} s: {what}\n{context()}")
        time.sleep(look_seconds)
