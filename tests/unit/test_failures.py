"""The report of a failed test says first what was expected and what was found."""

from __future__ import annotations

import pytest

from tests.support.failures import comparison_first

LOGS = "--- worker\nline 1\nline 2"
MESSAGES = {
    "the comparison comes before the logs": (
        f"{LOGS}\nassert 1 == 0\n  +1\n  -0",
        f"assert 1 == 0\n  +1\n  -0\n{LOGS}",
    ),
    "a comparison alone stays": ("assert 1 == 0", "assert 1 == 0"),
    "words alone stay": (f"not within 120 s: it runs\n{LOGS}", f"not within 120 s: it runs\n{LOGS}"),
}


@pytest.mark.parametrize("sentence", MESSAGES)
def test_the_words_of_a_failed_assertion(sentence: str) -> None:
    message, want = MESSAGES[sentence]
    assert comparison_first(message) == want
