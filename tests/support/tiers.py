"""Which rows of a table `make test` plays, and which it leaves to `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.mark.structures import ParameterSet


def one_in(every: int, rows: Iterable[object]) -> list[ParameterSet]:
    """The first of each `every` rows is in `make test`, the others are long."""
    return [pytest.param(row, marks=[pytest.mark.long] if n % every else []) for n, row in enumerate(rows)]
