"""When a dead service starts again, and in which words it is said. Pure."""

from __future__ import annotations

import signal

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 10.0
HEALTHY_AFTER_SECONDS = 30.0
START_ATTEMPTS = 3
"""Deaths of a service that has never been ready, after which the stack gives up: what cannot start will not start."""


def restart_wait_seconds(deaths_in_a_row: int) -> float:
    """Doubles with each death: 0.2, 0.4 ... 10."""
    return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(max(0, deaths_in_a_row - 1), 20)))


def deaths_in_a_row(before: int, lived_seconds: float) -> int:
    """The count after one more death; a life long enough starts it anew."""
    return 1 if lived_seconds >= HEALTHY_AFTER_SECONDS else before + 1


def describe_exit(returncode: int) -> str:
    """`subprocess`'s return code in words: negative is a signal."""
    if returncode >= 0:
        return f"ended with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was ended by {name}"
