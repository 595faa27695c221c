"""Places for streams of one sort: bounded in all, and for each viewer, so that no viewer takes all. For one thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class NoPlace(Exception):
    """`own`: the viewer has as many streams as one viewer may have. Else the places of all viewers are taken."""

    def __init__(self, own: bool) -> None:
        super().__init__("no place")
        self.own = own


class StreamPlaces:
    def __init__(self, most: int, each: int) -> None:
        """`most`: in all. `each`: of one viewer."""
        self.most = most
        self.each = each
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._taken.total()

    @contextmanager
    def take(self, viewer: str) -> Iterator[None]:
        """Hold a place. `viewer`: a name; '' if viewers are not distinguished, and then `each` is no bound. Raises
        NoPlace."""
        if viewer and self._taken[viewer] >= self.each:
            raise NoPlace(own=True)
        if len(self) >= self.most:
            raise NoPlace(own=False)
        self._taken[viewer] += 1
        try:
            yield
        finally:
            self._taken[viewer] -= 1
            # Counters keep names whose number is 0, and tokens are many.
            if not self._taken[viewer]:
                del self._taken[viewer]
