"""Who failed in one run comes last in the next. A run has a limit of time, and what hangs at its beginning would keep
all that comes after it from ever being tried.

The memory of one process: a shortcut that is never needed for what is right, only for what comes soon.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")

MOST = 1_000
"""Beyond that all are forgotten: they then come in their order again."""


class Stragglers:
    """Passes of several threads may use it, each with names of its own."""

    def __init__(self) -> None:
        self._names: set[Hashable] = set()

    def last(self, items: Iterable[T], name: Callable[[T], Hashable]) -> list[T]:
        """The same items, those that failed last; otherwise in their order."""
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
