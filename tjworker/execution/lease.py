"""A worker's lease on a key during a pass. The pass checks and renews it before each write and between slow reads.

No thread renews leases. The pass calls `ensure` before it writes, so a lease lasts as long as the work makes progress,
and no longer than a pass may take. A pass that slept past its lease gets Fenced at the next check and writes nothing
more. A write that slips through does no harm, because every write carries its own proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

from tjworker.base import Fenced, GroupResource, JobKey, Transient
from tjworker.store.work_queue import Claim, WorkQueue, Written

RENEWED_TOGETHER_SECONDS = 0.1
"""How long a renewal by `renew_together` replaces the first renewal of each lease."""


def too_long(most_seconds: float) -> Transient:
    return Transient(f"the pass took longer than {most_seconds:.0f} s (TJ_TASK_SOFT_TIME_LIMIT_SECONDS)")


class Lease:
    """Used by the thread of one pass. Only `check` is thread-safe."""

    def __init__(
        self,
        queue: WorkQueue,
        claim: Claim,
        ttl_seconds: float,
        monotonic: Callable[[], float],
        most_seconds: float = math.inf,
    ) -> None:
        """`most_seconds`: how long a pass may take."""
        self._queue = queue
        self._ttl_seconds = ttl_seconds
        self._most_seconds = most_seconds
        self._monotonic = monotonic
        self._began_at = self._renewed_at = monotonic()
        self._renewed_together_at = -math.inf
        self.claim = claim
        self.versions: list[tuple[GroupResource, int]] = []
        """(resource, resourceVersion) of every write so far: a view that shows less is stale."""
        self.gone: list[tuple[GroupResource, int]] = []
        """(resource, resourceVersion) of writes whose events are news: deletions that left nothing, objects that were
        there already."""

    @property
    def key(self) -> JobKey:
        return self.claim.key

    @property
    def held_seconds(self) -> float:
        """Seconds since the pass began."""
        return self._monotonic() - self._began_at

    @property
    def written(self) -> Written:
        return Written(tuple(self.versions), tuple(self.gone))

    def ensure(self) -> None:
        """Renew the lease if a third of it has passed. Raises Fenced if another worker may hold the key, Transient if
        the pass takes too long."""
        if self._monotonic() - self._renewed_at >= self._ttl_seconds / 3:
            self.renew()
        if self.held_seconds > self._most_seconds:
            raise too_long(self._most_seconds)

    def check(self) -> None:
        """Raise Fenced if the lease has lapsed by this process' own clock. Needs no round trip. Call it right before
        each write: `ensure` may have been called a while ago."""
        if self._monotonic() - self._renewed_at > self._ttl_seconds:
            raise Fenced(f"{self.key}: the lease has lapsed before a write began")

    @staticmethod
    def renew_together(leases: Sequence[Lease]) -> None:
        """Renew several leases in one round trip; their passes have written nothing yet. Raises nothing: errors surface
        in each lease's `renew_once`."""
        first = leases[0]
        started = first._monotonic()
        with suppress(Exception):
            answers = first._queue.renew_all([lease.claim for lease in leases], first._ttl_seconds)
            for lease, error in zip(leases, answers, strict=True):
                if error is None:
                    lease._renewed_at = lease._renewed_together_at = started

    def renew_once(self) -> None:
        """Renew the lease, unless `renew_together` has just done so."""
        renewed_at, self._renewed_together_at = self._renewed_together_at, -math.inf
        if self._monotonic() - renewed_at > RENEWED_TOGETHER_SECONDS:
            self.renew()

    def renew(self) -> None:
        """Renew the lease by Redis' clock. Raises Fenced if it has lapsed by that clock: ours may have stood still
        while the machine was suspended."""
        # Taken before the call: counted from its answer, the lease would seem to end later than it does.
        started = self._monotonic()
        self._queue.renew(self.claim, self._ttl_seconds)
        if self.versions or self.gone:
            self._queue.raise_min_observed(self.claim, self.written)
        self._renewed_at = started
