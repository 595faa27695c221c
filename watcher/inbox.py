"""The bounded queue between the informers and the one writer: order kept, memory bounded, nothing dropped.

When it is full (Redis is away), `put` blocks: the informer stops reading, TCP holds the server back, and if that lasts too
long the server ends the watch and the informer lists anew, with a diff. Thread-safe.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tjworker.api.podload import PodLoad
from tjworker.base import JobKey
from watcher.projection import Projected


@dataclass(frozen=True, slots=True)
class Batch:
    """What one page of a list or one read of a watch gave. `source` names the informer: `pods` or `pods/<namespace>`."""

    source: str
    changes: Sequence[Projected] = ()
    position: int = 0
    """resourceVersion up to which everything has been given; 0 in the middle of a list."""
    listed: bool = False
    """This ends a whole list (or the kind is not installed, and so there is nothing of it)."""
    existing: frozenset[tuple[JobKey, str]] | None = None
    """(key, name) of everything that exists, once a term: what else Redis holds is gone."""
    epoch: int = 0
    """How often everything has had to be given again before this."""
    list_version: int = 0
    """resourceVersion of the list that this is a page or the end of; 0 for a watch."""
    cluster: str = ""
    """Of which cluster the list is (`watcher.history`); '' when that is not known."""
    rewound: bool = False
    """The list shows an object older than it was known before: history went back."""
    ahead: bool = False
    """Of a watch that runs ahead of its source's list (`watcher.forerunner`)."""
    loads: Mapping[str, PodLoad] = field(default_factory=dict)
    """Node -> what the pods of this source ask for there, where that has changed (`watcher.loads`)."""


class Closed(Exception):
    """The inbox takes nothing more: the term is over."""


class Inbox:
    def __init__(self, capacity: int = 50_000) -> None:
        self._capacity = capacity
        self._batches: deque[Batch] = deque()
        self._size = 0
        self._closed = False
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._drained = threading.Condition(self._lock)
        self._gathered = threading.Condition(self._lock)
        """Notified when waiting for more is over: closed, or woken."""

    def __len__(self) -> int:
        return self._size

    def put(self, batch: Batch) -> None:
        """Waits while the inbox is full. Raises Closed."""
        with self._lock:
            while self._size >= self._capacity and not self._closed:
                self._drained.wait()
            if self._closed:
                raise Closed
            self._batches.append(batch)
            self._size += len(batch.changes)
            self._filled.notify()

    def take(self, timeout_seconds: float, *, gather_seconds: float = 0.0, limit: int = 2_000) -> list[Batch]:
        """Everything that is there, up to about `limit` changes; waits for a first batch at most that long, and then so
        long for more of them. [] also when woken or closed."""
        with self._lock:
            if not self._batches and not self._closed:
                self._filled.wait(timeout_seconds)
            if gather_seconds and self._batches and self._size < limit and not self._closed:
                # Not for a notice: each batch gives one, and none of them is worth waking for.
                self._gathered.wait(gather_seconds)
            taken: list[Batch] = []
            size = 0
            while self._batches and size < limit:
                batch = self._batches.popleft()
                taken.append(batch)
                size += len(batch.changes)
            self._size -= size
            if taken:
                self._drained.notify_all()
            return taken

    def wake(self) -> None:
        """Let a waiting `take` return early."""
        with self._lock:
            self._filled.notify_all()
            self._gathered.notify_all()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._batches.clear()
            self._size = 0
            self._filled.notify_all()
            self._drained.notify_all()
            self._gathered.notify_all()
