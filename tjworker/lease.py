"""A worker's lease on a key during a pass: checked before each write and between slow reads, and renewed there.

Runs no thread: the holder calls `ensure` before it writes, so the lease lives exactly as long as the work makes
progress, and no longer than a pass may take. A holder that slept past its lease is Fenced at the next check and writes
nothing more. A write that slips through is wasted but harmless, because every write carries its own proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

from tjworker.base import Fenced, GroupResource, JobKey, Transient
from tjworker.store.work_queue import Claim, WorkQueue, Written

PROVED_SECONDS = 0.1
"""For so long a renewal counts that was made for several leases together."""


def too_long(most_seconds: float) -> Transient:
    return Transient(f"the pass took longer than {most_seconds:.0f} s (TJ_TASK_SOFT_TIME_LIMIT_SECONDS)")


class Lease:
    """Not thread-safe, but for `check`: one pass, one thread."""

    def __init__(
        self,
        queue: WorkQueue,
        claim: Claim,
        ttl_seconds: float,
        monotonic: Callable[[], float],
        most_seconds: float = math.inf,
    ) -> None:
        """`most_seconds`: how old the pass may become."""
        self._queue = queue
        self._ttl_seconds = ttl_seconds
        self._most_seconds = most_seconds
        self._monotonic = monotonic
        self._began_at = self._renewed_at = monotonic()
        self._proved_at = -math.inf
        self.claim = claim
        self.versions: list[tuple[GroupResource, int]] = []
        """(resource, resourceVersion) of every write so far: a view that shows less is stale."""
        self.gone: list[tuple[GroupResource, int]] = []
        """(resource, resourceVersion) of every deletion that left nothing."""

    @property
    def key(self) -> JobKey:
        return self.claim.key

    @property
    def held_seconds(self) -> float:
        """How old the pass is."""
        return self._monotonic() - self._began_at

    @property
    def written(self) -> Written:
        return Written(tuple(self.versions), tuple(self.gone))

    def ensure(self) -> None:
        """Raises Fenced when another worker may hold the key, Transient when the pass takes too long. Costs a round
        trip once in a third of the lease."""
        if self._monotonic() - self._renewed_at >= self._ttl_seconds / 3:
            self.renew()
        if self.held_seconds > self._most_seconds:
            raise too_long(self._most_seconds)

    def check(self) -> None:
        """Raises Fenced when the lease has lapsed by this process' own clock. Without a round trip, from any thread:
        for who has asked `ensure` and begins now, maybe later than he thought."""
        if self._monotonic() - self._renewed_at > self._ttl_seconds:
            raise Fenced(f"{self.key}: the lease has lapsed before a write began")

    @staticmethod
    def prove(leases: Sequence[Lease]) -> None:
        """`renew` of several of one process, which have written nothing, in one round trip. What comes of it is told by
        the `renew_once` of each."""
        first = leases[0]
        started = first._monotonic()
        with suppress(Exception):
            answers = first._queue.renew_all([lease.claim for lease in leases], first._ttl_seconds)
            for lease, error in zip(leases, answers, strict=True):
                if error is None:
                    lease._renewed_at = lease._proved_at = started

    def renew_once(self) -> None:
        """`renew`, but where `prove` has done it a moment ago."""
        proved_at, self._proved_at = self._proved_at, -math.inf
        if self._monotonic() - proved_at > PROVED_SECONDS:
            self.renew()

    def renew(self) -> None:
        """As the store counts: where this process, or its whole machine, slept and its own clock did not see it, the
        lease may have lapsed all the same. Raises Fenced then."""
        started = self._monotonic()
        self._queue.renew(self.claim, self._ttl_seconds)
        if self.versions or self.gone:
            self._queue.raise_min_observed(self.claim, self.written)
        self._renewed_at = started
