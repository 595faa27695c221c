"""Equal tracebacks are told once, everything else as it comes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tjworker.cli.fold import MAX_LINES, Fold

BEGINS = "Traceback (most recent call last):"
OF_LOSS = (BEGINS, '  File "train.py", line 3, in <module>', "    fit()", "ValueError: loss is nan")
OF_DISK = (BEGINS, '  File "train.py", line 9, in <module>', "OSError: disk full")
BETWEEN = ("", "During handling of the above exception, another exception occurred:", "")
CHAINED = (*OF_LOSS[:3], "KeyError: 1", *BETWEEN, *OF_DISK)
Lines = tuple[tuple[str, str], ...]


def of(label: str, *lines: str) -> Lines:
    return tuple((label, line) for line in lines)


@dataclass(frozen=True)
class Case:
    lines: Lines
    want: Lines


def folded(label: str, first: str, traceback: tuple[str, ...]) -> Lines:
    return of(label, f"... the same traceback as of {first} ({len(traceback)} lines): {traceback[-1]}")


CASES: dict[str, Case] = {
    "lines that are no traceback": Case(of("a", "epoch 1", "  indented", ""), of("a", "epoch 1", "  indented", "")),
    "an equal one of another replica is one line": Case(
        (*of("a", *OF_LOSS), *of("b", *OF_LOSS), *of("b", "bye")),
        (*of("a", *OF_LOSS), *folded("b", "a", OF_LOSS), *of("b", "bye")),
    ),
    "of one that comes of another each part is told once": Case(
        (*of("a", *CHAINED), *of("b", *CHAINED)),
        (*of("a", *CHAINED), *folded("b", "a", CHAINED[:4]), *of("b", *CHAINED[4:7]), *folded("b", "a", OF_DISK)),
    ),
    "one that is cut off is shown at the end": Case(of("a", *OF_LOSS[:2]), of("a", *OF_LOSS[:2])),
    "one without an end holds nothing back for ever": Case(
        of("a", BEGINS, *["  x"] * MAX_LINES, "  y"), of("a", BEGINS, *["  x"] * MAX_LINES, "  y")
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_is_shown(case: Case) -> None:
    fold = Fold()
    shown = [one for label, line in case.lines for one in fold.line(label, line)]
    assert (*shown, *fold.rest()) == case.want


def test_what_every_replica_had_begun_when_the_logs_were_over_is_shown() -> None:
    fold = Fold()
    begun = "Traceback (most recent call last):"
    assert [shown for label in "abc" for shown in fold.line(label, begun)] == []
    assert list(fold.rest()) == [(label, begun) for label in "abc"]
