"""What `make test` plays of a table or of random examples, and what it leaves to `make test-long`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet
from hypothesis import settings


def one_in(every: int, rows: Iterable[object]) -> list[ParameterSet]:
    """The first of each `every` rows is in `make test`, the others are long."""
    return [pytest.param(row, marks=[pytest.mark.long] if n % every else []) for n, row in enumerate(rows)]


def drawn(number: int) -> int:
    """How many random examples to draw: a quarter in `make test`, all in `make test-long` (of tests that are marked
    `wide`), four times as many in `make test-random`, which looks for new bugs."""
    if os.environ.get("TJ_TEST_SEED"):
        return 4 * number
    return number if os.environ.get("TJ_TEST_WIDE") else max(1, number // 4)


def examples(number: int) -> Callable[[Any], Any]:
    """A test of Hypothesis that draws so many."""

    def decorate(test: Any) -> Any:
        return pytest.mark.wide(settings(max_examples=drawn(number), deadline=None, print_blob=True)(test))

    return decorate
