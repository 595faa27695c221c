"""Who trains on which shard: EDL's master, cut down to its idea. Pure: time is an argument; for one thread at a time.

An epoch is a number of shards. Each is `todo`, then leased to one trainer, then done; a lease that its holder loses
(it died, its time ran out, it gave the shard back) puts the shard back to `todo`. The epoch ends when all are done. A
shard may be trained on twice, never left out: at least once is what asynchronous training needs.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Lease:
    token: str
    epoch: int
    shard: int
    holder: str
    until_seconds: float


class TaskQueue:
    def __init__(self, *, shards: int, epochs: int, lease_seconds: float) -> None:
        self.shards = shards
        self.epochs = epochs
        self.lease_seconds = lease_seconds
        self.epoch = 0
        """Epochs done so far; equal to `epochs` at the end."""
        self._todo = list(range(shards))
        self._leases: dict[str, Lease] = {}
        self._done: set[int] = set()
        self._numbers = itertools.count(1)
        # A restarted master counts from 1 again: a token of the one before it must not fit a lease of this one.
        self._prefix = secrets.token_hex(4)

    @property
    def finished(self) -> bool:
        return self.epoch >= self.epochs

    @property
    def progress(self) -> float:
        """0 at the start, 1 at the end."""
        return min(1.0, (self.epoch + len(self._done) / self.shards) / self.epochs)

    def take(self, holder: str, now_seconds: float) -> Lease | None:
        """A shard for `holder`, None when all are leased or the training is over."""
        if self.finished or not self._todo:
            return None
        token = f"{self._prefix}-{next(self._numbers)}"
        lease = Lease(token, self.epoch, self._todo.pop(0), holder, now_seconds + self.lease_seconds)
        self._leases[token] = lease
        return lease

    def done(self, token: str) -> bool:
        """False when the lease is no longer valid: the shard is another's by now."""
        lease = self._leases.pop(token, None)
        if lease is None:
            return False
        self._done.add(lease.shard)
        if len(self._done) == self.shards:
            self.epoch += 1
            self._done.clear()
            self._todo = [] if self.finished else list(range(self.shards))
        return True

    def renew(self, token: str, now_seconds: float) -> bool:
        lease = self._leases.get(token)
        if lease is not None:
            self._leases[token] = replace(lease, until_seconds=now_seconds + self.lease_seconds)
        return lease is not None

    def release(self, holder: str) -> list[Lease]:
        """Takes back all that `holder` has: it is gone, or is leaving."""
        return self._take_back(lambda lease: lease.holder == holder)

    def expire(self, now_seconds: float) -> list[Lease]:
        return self._take_back(lambda lease: lease.until_seconds <= now_seconds)

    def snapshot(self) -> dict[str, Any]:
        """What `restore` goes on from. Leased shards count as not done: their trainers may be gone by then."""
        return {"shards": self.shards, "epoch": self.epoch, "done": sorted(self._done)}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Raises ValueError for the snapshot of another training."""
        if snapshot.get("shards") != self.shards:
            raise ValueError(f"it has {snapshot.get('shards')} shards an epoch, this training {self.shards}")
        self.epoch = int(snapshot["epoch"])
        self._done = {int(shard) for shard in snapshot["done"]} & set(range(self.shards))
        self._todo = [] if self.finished else [shard for shard in range(self.shards) if shard not in self._done]
        self._leases.clear()

    def _take_back(self, lost: Callable[[Lease], bool]) -> list[Lease]:
        gone = [lease for lease in self._leases.values() if lost(lease)]
        for lease in gone:
            del self._leases[lease.token]
            # To the front: the end of an epoch waits for it.
            self._todo.insert(0, lease.shard)
        return gone
