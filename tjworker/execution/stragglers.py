"""Puts the items that failed in one run last in the next. A run has a time limit: an item that hangs at its beginning
would keep all later items from being tried, run after run.

The memory of one process, and an optimisation: correctness does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")

MOST = 1_000
"""How many failed items are remembered. Beyond that all are forgotten, and keep their order."""


class Stragglers:
    """Concurrent passes may use it, each with its own names."""

    def __init__(self) -> None:
        self._names: set[Hashable] = set()

    def put_failed_last(self, items: Iterable[T], name: Callable[[T], Hashable]) -> list[T]:
        """The items in their order, but failed ones at the end."""
        return sorted(items, key=lambda item: name(item) in self._names)

    def has(self, name: Hashable) -> bool:
        return name in self._names

    def note(self, name: Hashable, *, failed: bool) -> None:
        if not failed:
            self._names.discard(name)
            return
        if len(self._names) >= MOST:
            self._names.clear()
        self._names.add(name)
