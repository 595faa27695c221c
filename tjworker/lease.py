"""A worker's hold on a key while it works: renewed between writes, checked before each of them.

Never runs a thread of its own: the holder asks `ensure` before it writes, so the lease is as alive as the work. A holder
that slept past its lease is Fenced at the next check and writes nothing more; what it was about to write would have been
harmless all the same (every write carries its own proof), only wasted.
"""

from __future__ import annotations

from collections.abc import Callable

from tjworker.base import JobKey
from tjworker.store.port import Hold, Store, Written


class Lease:
    """Not thread-safe: one pass, one thread."""

    def __init__(self, store: Store, hold: Hold, ttl_seconds: float, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._ttl_seconds = ttl_seconds
        self._monotonic = monotonic
        self._renewed_at = monotonic()
        self.hold = hold
        self.versions: list[tuple[str, int]] = []
        """(resource, resourceVersion) of every write so far: the floor below which a later view is stale."""
        self.gone: list[tuple[str, int]] = []
        """Likewise of every deletion that left nothing."""

    @property
    def key(self) -> JobKey:
        return self.hold.key

    @property
    def written(self) -> Written:
        return Written(tuple(self.versions), tuple(self.gone))

    def ensure(self) -> None:
        """Raises Fenced when somebody else may hold the key by now. Costs a round trip once in a third of the lease."""
        if self._monotonic() - self._renewed_at < self._ttl_seconds / 3:
            return
        started = self._monotonic()
        self._store.renew(self.hold, self._ttl_seconds)
        if self.versions or self.gone:
            self._store.raise_floor(self.hold, self.written)
        self._renewed_at = started
