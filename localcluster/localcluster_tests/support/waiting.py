"""Wait for the thing itself, as long as a slow machine needs: a limit only ends a test that fails."""

from __future__ import annotations

import contextlib
import random
import socket
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
    """Return once the condition holds. `context` adds to the message when it never does."""
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_seconds:.0f} s: {what}\n{context()}")
        time.sleep(look_seconds)


def free_port() -> int:
    """Not one that the kernel would choose: it is bound seconds later, and until then it would give it to others."""
    for port in random.SystemRandom().sample(range(10_000, 20_000), 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("200 ports between 10000 and 19999 are taken")
