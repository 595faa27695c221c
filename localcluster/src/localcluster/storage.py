"""The MVCC store: one revision counter over all objects, a history for watches and for lists of the past, and a log on
disk.

Stored objects are frozen by convention: a writer builds a new dict, because controllers in the same process read
them as they are. Serialised bytes are cached on the item, so that a thousand watchers and a list cost one
serialisation. Nothing here knows what a kind means.

On disk: `snapshot-<n>.jsonl` (every object at one revision) and `wal-<n>.jsonl` (each write since). A write is in the
log before it is answered; a torn last line was never acknowledged, and is dropped. Opening is safe to
repeat.
"""

from __future__ import annotations

import fcntl
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson

from localcluster import jsontext
from localcluster.wire import Encoded, Json

Key = tuple[str, str]
"""(namespace, name); the namespace is empty for cluster-scoped objects."""
EventType = Literal["ADDED", "MODIFIED", "DELETED"]

SNAPSHOT_AFTER_BYTES = 64 << 20
HISTORY_EVENTS = 20_000
"""The events kept for one bucket; between two compactions there may be twice as many."""


class Item(Encoded):
    """One version of one object. `obj` is never changed after it was stored."""

    __slots__ = ("revision",)

    obj: Json

    def __init__(self, obj: Json, revision: int) -> None:
        super().__init__(obj)
        self.revision = revision


@dataclass(slots=True)
class Event:
    """One write. For a deletion `item` is the last state, carrying the revision of the deletion."""

    revision: int
    type: EventType
    bucket: str
    key: Key
    item: Item
    previous: Item | None
    at: float
    lines: dict[str, Encoded] = field(default_factory=dict)
    """Watch lines, shared by all watchers that want the same form."""


class Compacted(Exception):
    """The revision asked for is older than the history."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"{asked} < {oldest}")
        self.asked = asked
        self.oldest = oldest


class Store:
    """Single-threaded. `on_event` is called after each write."""

    def __init__(self, clock: Callable[[], float], data_dir: Path | None = None) -> None:
        self._clock = clock
        self.revision = 1
        self.compacted = 0
        """Watches may start at this revision or later."""
        self.on_event: Callable[[Event], None] = lambda _event: None
        self._objects: dict[str, dict[Key, Item]] = defaultdict(dict)
        self._history: dict[str, list[Event]] = defaultdict(list)
        self._sorted: dict[str, list[Key]] = {}
        self._log = _DiskLog(data_dir) if data_dir is not None else None
        if self._log is not None:
            self._replay(self._log)

    # -- reading -----------------------------------------------------------------------------------
    def get(self, bucket: str, key: Key) -> Item | None:
        return self._objects[bucket].get(key)

    def count(self, bucket: str) -> int:
        return len(self._objects[bucket])

    def items(self, bucket: str, namespace: str = "") -> Iterator[tuple[Key, Item]]:
        """The current objects, by namespace and name. With a namespace, only its own."""
        objects = self._objects[bucket]
        keys = self._sorted_keys(bucket)
        start = bisect_right(keys, (namespace, "")) if namespace else 0
        for key in keys[start:]:
            if namespace and key[0] != namespace:
                break
            yield key, objects[key]

    def items_at(self, bucket: str, revision: int, namespace: str = "") -> list[tuple[Key, Item]]:
        """The objects as they were at that revision. Raises Compacted when the history does not reach back so far."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        if revision >= self.revision or not self._history[bucket] or self._history[bucket][-1].revision <= revision:
            return list(self.items(bucket, namespace))
        past = dict(self._objects[bucket])
        for event in reversed(self._history[bucket]):
            if event.revision <= revision:
                break
            if event.previous is None:
                past.pop(event.key, None)
            else:
                past[event.key] = event.previous
        return [(key, past[key]) for key in sorted(past) if not namespace or key[0] == namespace]

    def since(self, bucket: str, revision: int) -> list[Event]:
        """The writes after that revision. Raises Compacted."""
        # A watcher would take the rest of the history for all of it.
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        history = self._history[bucket]
        return history[bisect_right(history, revision, key=lambda event: event.revision) :]

    def newest(self, bucket: str) -> int:
        """The revision of the last write; of a history that was compacted whole, the revision of the compaction."""
        history = self._history[bucket]
        return history[-1].revision if history else self.compacted

    def _sorted_keys(self, bucket: str) -> list[Key]:
        keys = self._sorted.get(bucket)
        if keys is None:
            keys = self._sorted[bucket] = sorted(self._objects[bucket])
        return keys

    # -- writing -----------------------------------------------------------------------------------
    def put(self, bucket: str, key: Key, obj: Json) -> Item:
        """Store `obj` (it belongs to the store from here on) as the newest version of `key`."""
        return self._commit(bucket, key, obj, deleted=False).item

    def delete(self, bucket: str, key: Key, last: Json) -> Item:
        """Remove `key`. `last` is its final state; watchers get it with the revision of the deletion."""
        return self._commit(bucket, key, last, deleted=True).item

    def _commit(self, bucket: str, key: Key, obj: Json, *, deleted: bool) -> Event:
        revision = self.revision + 1
        obj["metadata"]["resourceVersion"] = str(revision)
        item = Item(obj, revision)
        if self._log is not None:
            self._log.append(revision, bucket, key, None if deleted else item.data, item.data if deleted else None)
        event = self._apply(revision, bucket, key, item, deleted=deleted)
        if self._log is not None and self._log.size_bytes > SNAPSHOT_AFTER_BYTES:
            self._log.snapshot(self.revision, self._objects)
        self.on_event(event)
        return event

    def _apply(self, revision: int, bucket: str, key: Key, item: Item, *, deleted: bool) -> Event:
        objects = self._objects[bucket]
        previous = objects.get(key)
        if deleted:
            objects.pop(key, None)
        else:
            objects[key] = item
        # Only a key that comes or goes changes the order.
        if deleted or previous is None:
            self._sorted.pop(bucket, None)
        kind: EventType = "DELETED" if deleted else "ADDED" if previous is None else "MODIFIED"
        event = Event(revision, kind, bucket, key, item, previous, self._clock())
        history = self._history[bucket]
        history.append(event)
        self.revision = revision
        if len(history) > 2 * HISTORY_EVENTS:
            # Bounds the memory where `compact` is not called, as in a simulation whose clock does not move.
            self.compacted = max(self.compacted, history[HISTORY_EVENTS - 1].revision)
            del history[:HISTORY_EVENTS]
        return event

    # -- history and disk --------------------------------------------------------------------------
    def compact(self, older_than_seconds: float) -> None:
        """Forget history that is old or long. The objects themselves stay."""
        horizon = self._clock() - older_than_seconds
        for history in self._history.values():
            drop = max(0, len(history) - HISTORY_EVENTS)
            while drop < len(history) and history[drop].at < horizon:
                drop += 1
            if drop:
                self.compacted = max(self.compacted, history[drop - 1].revision)
                del history[:drop]

    def buckets(self) -> list[str]:
        return [bucket for bucket, objects in self._objects.items() if objects]

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def _replay(self, log: _DiskLog) -> None:
        revision, objects = log.read_snapshot()
        self.revision = self.compacted = revision
        for bucket, key, obj in objects:
            self._objects[bucket][key] = Item(obj, int(obj["metadata"]["resourceVersion"]))
        for written, name, where, new, last in log.read_writes():
            state = new if new is not None else last
            self._apply(written, name, where, Item(state or {"metadata": {}}, written), deleted=new is None)


class _DiskLog:
    """The files. One process at a time owns the folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise RuntimeError(
                f"data folder {folder}: another local cluster uses it; stop that one or choose another folder"
            ) from None
        self._number = max((int(path.stem.split("-")[1]) for path in folder.glob("snapshot-*.jsonl")), default=0)
        self._file = os.open(self._file_path("wal"), os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        self.size_bytes = os.fstat(self._file).st_size

    def _file_path(self, kind: str, number: int | None = None) -> Path:
        return self._folder / f"{kind}-{self._number if number is None else number}.jsonl"

    def append(self, revision: int, bucket: str, key: Key, data: bytes | None, last: bytes | None) -> None:
        head = orjson.dumps([revision, bucket, *key])
        line = b'{"h":%b,"o":%b,"l":%b}\n' % (head, data or b"null", last or b"null")
        written = os.write(self._file, line)
        # A signal or a nearly full disk may cut a write short.
        while written < len(line):
            written += os.write(self._file, line[written:])
        self.size_bytes += len(line)

    def read_snapshot(self) -> tuple[int, list[tuple[str, Key, Json]]]:
        if self._number == 0:
            return 1, []
        lines = self._file_path("snapshot").read_bytes().splitlines()
        head = orjson.loads(lines[0])
        rows = [jsontext.loads(line) for line in lines[1:]]
        return head["revision"], [(row["b"], (row["k"][0], row["k"][1]), row["o"]) for row in rows]

    def read_writes(self) -> Iterator[tuple[int, str, Key, Json | None, Json | None]]:
        data = self._file_path("wal").read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.truncate(self._file_path("wal"), whole)
            self.size_bytes = whole
        for line in data[:whole].splitlines():
            row = jsontext.loads(line)
            revision, bucket, namespace, name = row["h"]
            yield revision, bucket, (namespace, name), row["o"], row["l"]

    def snapshot(self, revision: int, objects: dict[str, dict[Key, Item]]) -> None:
        number = self._number + 1
        partial = self._folder / "snapshot.tmp"
        with partial.open("wb") as file:
            file.write(orjson.dumps({"revision": revision}) + b"\n")
            for bucket, rows in objects.items():
                for key, item in rows.items():
                    file.write(b'{"b":%b,"k":%b,"o":%b}\n' % (orjson.dumps(bucket), orjson.dumps(key), item.data))
            file.flush()
            # Synced before the rename: after a crash of the machine the new name must not be an empty file.
            os.fsync(file.fileno())
        # Renamed only when whole: a crash before leaves the old pair, a crash after finds the new one with an empty
        # log.
        partial.rename(self._file_path("snapshot", number))
        old_file, old_number = self._file, self._number
        self._number = number
        self._file = os.open(self._file_path("wal"), os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        self.size_bytes = 0
        os.close(old_file)
        for kind in ("snapshot", "wal"):
            self._file_path(kind, old_number).unlink(missing_ok=True)

    def close(self) -> None:
        os.close(self._file)
        os.close(self._lock)
