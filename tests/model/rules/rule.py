"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.model.lives import Life

Rule = Callable[[Life], Iterator[str]]
"""Goes through one job's life and gives, for each case that it judges, what is wrong with it; "" if nothing is."""
