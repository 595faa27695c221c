"""The bounded queue between the reflectors and the one writer: order kept, memory bounded, nothing dropped.

Most pods of a shared cluster belong to no job, and each of their events moves a position and perhaps a sum. Such a
batch wakes nobody: the writer, which writes positions and sums every second or two, finds it when it next looks.

When it is full (Redis is away), `put` blocks: the reflector stops reading, TCP holds the server back, and if that lasts
too long the server ends the watch and the reflector lists anew, with a diff. Thread-safe.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tjworker.base import JobKey
from tjworker.kube.reflector import Closed
from watcher.node_requests import Sum
from watcher.projection import Projected


@dataclass(frozen=True, slots=True)
class Batch:
    """What one page of a list or one read of a watch gave. `source` names the reflector: `pods` or
    `pods/<namespace>`."""

    source: str
    changes: Sequence[Projected] = ()
    position: int = 0
    """resourceVersion up to which everything has been given; 0 in the middle of a list."""
    listed: bool = False
    """This ends a whole list (or the kind is not installed, and so there is nothing of it)."""
    existing: frozenset[tuple[JobKey, str]] | None = None
    """(key, name) of everything that exists, once a term: what else Redis holds is gone."""
    list_version: int = 0
    """resourceVersion of the list that this is a page or the end of; 0 for a watch."""
    cluster: str = ""
    """Of which cluster the list is (`watcher.cluster_id`); '' when that is not known."""
    rewound: bool = False
    """The list shows an object older than it was known before: history went back."""
    resumed: bool = False
    """From a resumed watch, which runs beside its source's list (`watcher.resume`)."""
    requests: Mapping[str, Sum] = field(default_factory=dict)
    """Node -> what the pods of this source request there, where that has changed (`watcher.node_requests`)."""
    refused: bool = False
    """Its first list is refused for want of permission; it may come at any time."""

    @property
    def is_quiet(self) -> bool:
        """It changes only a position and sums."""
        of_a_list = self.listed or self.list_version or self.existing is not None or self.rewound or self.cluster
        return not (self.changes or of_a_list or self.refused)

    def with_later(self, batch: Batch) -> Batch:
        """The two as one, of one source and both quiet."""
        position = max(self.position, batch.position)
        return replace(self, position=position, requests={**self.requests, **batch.requests})


class EventQueue:
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._batches: deque[Batch] = deque()
        self._size = 0
        self._urgent = 0
        """Batches that are not quiet."""
        self._closed = False
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._drained = threading.Condition(self._lock)
        self._gathered = threading.Condition(self._lock)
        """Notified when the queue is closed."""

    def __len__(self) -> int:
        return self._size

    def put(self, batch: Batch) -> None:
        """Waits while the queue is full. Raises Closed."""
        with self._lock:
            while self._size >= self._capacity and not self._closed:
                self._drained.wait()
            if self._closed:
                raise Closed
            if batch.is_quiet:
                self._put_quietly(batch)
                return
            self._batches.append(batch)
            self._size += len(batch.changes)
            self._urgent += 1
            self._filled.notify()

    def _put_quietly(self, batch: Batch) -> None:
        last = self._batches[-1] if self._batches else None
        if last is not None and last.is_quiet and (last.source, last.resumed) == (batch.source, batch.resumed):
            self._batches[-1] = last.with_later(batch)
        else:
            self._batches.append(batch)

    def take(self, timeout_seconds: float, *, gather_seconds: float = 0.0, limit: int = 2_000) -> list[Batch]:
        """Everything that is there, up to about `limit` changes; waits for a first batch that is not quiet at most that
        long, and then so long for more of them. [] also when closed."""
        with self._lock:
            if not self._urgent and not self._closed:
                self._filled.wait(timeout_seconds)
            if gather_seconds and self._urgent and self._size < limit and not self._closed:
                # Not for a notice: each batch gives one, and none of them is worth waking for.
                self._gathered.wait(gather_seconds)
            taken: list[Batch] = []
            size = 0
            while self._batches and size < limit:
                batch = self._batches.popleft()
                taken.append(batch)
                size += len(batch.changes)
                self._urgent -= not batch.is_quiet
            self._size -= size
            if taken:
                self._drained.notify_all()
            return taken

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._batches.clear()
            self._size = self._urgent = 0
            self._filled.notify_all()
            self._drained.notify_all()
            self._gathered.notify_all()
