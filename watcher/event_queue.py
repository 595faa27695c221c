"""The bounded queue between the reflectors and the projection writer. Keeps the order, drops nothing. Thread-safe.

Most pods of a shared cluster belong to no job: their events change only a position and perhaps sums of requests. Such a
batch does not wake the writer, which finds it when it next looks: positions and sums are written every second or two.

When the queue is full (Redis is away), `put` blocks: the reflector stops reading, and TCP holds the server back. If
that lasts too long, the server ends the watch, and the reflector lists again, with a diff.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeGuard

from tjworker.base import JobKey
from tjworker.kube.reflector import Closed
from watcher.node_requests import Sum
from watcher.projection import Projected

# `source` of each batch names its reflector: `pods` or `pods/<namespace>`.


@dataclass(frozen=True, slots=True)
class ProjectedPage:
    """Objects of one page of a list. The list goes on, or `ListEnd` follows."""

    source: str
    changes: Sequence[Projected]
    version: int
    """resourceVersion of the list."""
    cluster: str = ""
    """Id of the cluster (`watcher.cluster_id`); '' if it is unknown."""
    rewound: bool = False
    """The list shows an object older than it was known before: the cluster's history went back."""
    position: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class ListEnd:
    """A list is complete. `changes`: deletions of objects that an earlier list or the watch has shown."""

    source: str
    version: int
    changes: Sequence[Projected] = ()
    existing: frozenset[tuple[JobKey, str]] | None = None
    """(key, name) of everything that exists, with the first list of a term: what else Redis holds is swept."""
    cluster: str = ""
    rewound: bool = False
    requests: Mapping[str, Sum] = field(default_factory=dict)
    """Node -> what the pods of this source request there, if that has changed (`watcher.node_requests`)."""

    @property
    def position(self) -> int:
        """resourceVersion up to which the writer has been given everything."""
        return self.version


@dataclass(frozen=True, slots=True)
class WatchEvents:
    """Events of one read of a watch; none if only the position moves, as with a bookmark."""

    source: str
    changes: Sequence[Projected] = ()
    position: int = 0
    resumed: bool = False
    """From a resumed watch, which runs concurrently with the list of its source (`watcher.resume`)."""
    requests: Mapping[str, Sum] = field(default_factory=dict)

    def with_later(self, later: WatchEvents) -> WatchEvents:
        """Both as one. They must have the same source, and no changes."""
        position = max(self.position, later.position)
        return replace(self, position=position, requests={**self.requests, **later.requests})


@dataclass(frozen=True, slots=True)
class NotInstalled:
    """The API server does not know the resource: its list counts as complete and empty."""

    source: str
    changes: ClassVar[Sequence[Projected]] = ()
    position: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The operator lacks the permission to list the resource. The list may come at any time."""

    source: str
    changes: ClassVar[Sequence[Projected]] = ()
    position: ClassVar[int] = 0


Batch = ProjectedPage | ListEnd | WatchEvents | NotInstalled | Forbidden


def is_of_resumed_watch(batch: Batch) -> bool:
    return isinstance(batch, WatchEvents) and batch.resumed


def _is_quiet(batch: Batch) -> TypeGuard[WatchEvents]:
    """True if the batch changes only a position and sums."""
    return isinstance(batch, WatchEvents) and not batch.changes


class EventQueue:
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._batches: deque[Batch] = deque()
        self._size = 0
        self._urgent = 0
        """Batches for which the writer wakes."""
        self._closed = False
        self._lock = threading.Lock()
        self._filled = threading.Condition(self._lock)
        self._drained = threading.Condition(self._lock)
        self._gathered = threading.Condition(self._lock)
        """Notified when the queue is closed."""

    def __len__(self) -> int:
        return self._size

    def put(self, batch: Batch) -> None:
        """Add a batch; wait while the queue is full. Raises Closed."""
        with self._lock:
            # The reflector stops reading, and TCP holds the API server back: memory is bounded while Redis is away.
            while self._size >= self._capacity and not self._closed:
                self._drained.wait()
            if self._closed:
                raise Closed
            if _is_quiet(batch):
                self._put_quietly(batch)
                return
            self._batches.append(batch)
            self._size += len(batch.changes)
            self._urgent += 1
            self._filled.notify()

    def _put_quietly(self, batch: WatchEvents) -> None:
        # Joined with the last batch if that is of the same source: while Redis is away a busy cluster sends thousands.
        last = self._batches[-1] if self._batches else None
        if last and _is_quiet(last) and (last.source, last.resumed) == (batch.source, batch.resumed):
            self._batches[-1] = last.with_later(batch)
        else:
            self._batches.append(batch)

    def take(self, timeout_seconds: float, *, gather_seconds: float = 0.0, limit: int = 2_000) -> list[Batch]:
        """Take all batches, up to about `limit` changes. Waits up to `timeout_seconds` for a batch that wakes the
        writer, then `gather_seconds` for more. [] if none came, or the queue is closed."""
        with self._lock:
            if not self._urgent and not self._closed:
                self._filled.wait(timeout_seconds)
            if gather_seconds and self._urgent and self._size < limit and not self._closed:
                # A fixed time: waking up for each batch would defeat the gathering.
                self._gathered.wait(gather_seconds)
            taken: list[Batch] = []
            size = 0
            while self._batches and size < limit:
                batch = self._batches.popleft()
                taken.append(batch)
                size += len(batch.changes)
                self._urgent -= not _is_quiet(batch)
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
