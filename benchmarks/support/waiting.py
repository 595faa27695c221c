"""Waiting for the processes of a benchmark."""

from __future__ import annotations

import time
from collections.abc import Callable

from tjworker.base import Transient
from tjworker.store.port import Store

DEADLINE_SECONDS = 300.0


def answers(store: Store) -> bool:
    """True if Redis answers."""
    try:
        store.queue.stats()
    except Transient:
        return False
    return True


def wait_until(what: str, is_true: Callable[[], bool]) -> None:
    """Return when the condition holds. Raises SystemExit with `what` after DEADLINE_SECONDS."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_true():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {DEADLINE_SECONDS:.0f} s: {what}?")
        time.sleep(0.05)
