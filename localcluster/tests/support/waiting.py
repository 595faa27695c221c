"""Wait for the thing itself, as long as a slow machine needs: a limit only ends a test that fails."""

from __future__ import annotations

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
    """Return once the condition holds. `context` tells more when it never does."""
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_seconds:.0f} s: {what}\n{context()}")
        time.sleep(look_seconds)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
