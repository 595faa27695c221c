"""Tables: how long a dead service waits, and in which words its death is told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tjworker.cli.stack import policy


@dataclass(frozen=True)
class Death:
    before: int
    lived_seconds: float
    want_count: int
    want_wait_seconds: float


DEATHS: dict[str, Death] = {
    "the first death waits a moment": Death(0, 5, 1, 0.2),
    "the second doubles it": Death(1, 0, 2, 0.4),
    "it never waits longer than the limit": Death(50, 0, 51, 10),
    "a long life starts the count anew": Death(6, 31, 1, 0.2),
}


@pytest.mark.parametrize("case", DEATHS.values(), ids=list(DEATHS))
def test_restarts(case: Death) -> None:
    count = policy.deaths_in_a_row(case.before, case.lived_seconds)
    assert count == case.want_count
    assert policy.restart_wait_seconds(count) == pytest.approx(case.want_wait_seconds)


EXITS: dict[str, tuple[int, str]] = {
    "an exit code": (3, "ended with exit code 3"),
    "a clean end is told as well": (0, "ended with exit code 0"),
    "a signal has its name": (-9, "was ended by SIGKILL"),
    "an unknown signal has its number": (-250, "was ended by signal 250"),
}


@pytest.mark.parametrize(("returncode", "want"), EXITS.values(), ids=list(EXITS))
def test_exits_in_words(returncode: int, want: str) -> None:
    assert policy.describe_exit(returncode) == want
