"""When a reflector may ask again: failures in a row, lists in a row, a wait that the server names."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from tjworker.kube.list_backoff import ListBackoff


def test_waits_double_up_to_the_longest_and_begin_again_after_a_success() -> None:
    backoff = ListBackoff(random.Random(1))
    waits = [backoff.backoff() for _ in range(8)]
    assert all(max(1, full / 2) <= wait <= full for wait, full in zip(waits, (1, 2, 4, 8, 16, 30, 30, 30), strict=True))
    assert backoff.backoff(missing=True) > 15, "a kind that is not installed is asked for more rarely"
    backoff.reset()
    assert backoff.backoff() == 1


@dataclass(frozen=True)
class Case:
    failed: tuple[int, float | None] | None
    answers: bool = False
    want: tuple[float, float] = (0, 0)
    """Least and most seconds to wait, 10 s after the last list."""


CASES = {
    "a list that succeeded is not repeated within 30 s": Case(None, want=(20, 20)),
    "nor is one that the server refused": Case((500, None), want=(20, 20)),
    "one without an answer is, when the server answers a probe": Case((0, None), answers=True),
    "one without an answer waits while the server does not live": Case((0, None), want=(1, 1)),
    "a wait that the server names is kept": Case((429, 13.0), want=(3, 3)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_next_list(case: Case) -> None:
    backoff = ListBackoff(random.Random(1))
    backoff.list_starts(100.0)
    if case.failed is not None:
        backoff.list_failed(*case.failed)
        if case.failed[1] is not None:
            backoff.wait_as_asked(case.failed[1], 100.0)
    least, most = case.want
    assert least <= backoff.before_list(110.0, answers=case.answers) <= most
    assert backoff.before_list(131.0) == 0


def test_a_probe_is_for_a_list_without_an_answer_alone() -> None:
    backoff = ListBackoff(random.Random(1))
    backoff.list_starts(100.0)
    for answer, want in (((500, None), False), ((0, None), True)):
        backoff.list_failed(*answer)
        assert backoff.wants_probe(110.0) is want
    backoff.allow_list()
    assert (backoff.wants_probe(110.0), backoff.before_list(110.0)) == (False, 0)
