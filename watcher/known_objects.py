"""The objects of one resource that the reflector has shown. Turns lists and watch events into changes. PURE.

Returns each change once and in order, and leaves none out: an object that a later list does not show becomes a
deletion. For the same object again it returns nothing. It keeps the resourceVersion and the key of objects that belong
to a job, for jobs also a digest of what a pass decides on, and nothing of strangers. An object that cannot be read is
left to `Skipped`, and its last known state stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tjworker.api.pod_records import Deletion
from tjworker.base import GroupResource, JobKey, Json
from tjworker.store.projection import Change
from watcher.isolation import Skipped
from watcher.node_requests import RequestBook
from watcher.projection import Projected, deletion, identify, project


@dataclass(frozen=True, slots=True)
class _Known:
    rv: int
    change: Change
    """Without its record. A deletion is made from it."""
    decisive: bytes = b""
    """Digest of what a pass decides on, for a job; b'' for other objects."""


class KnownObjects:
    def __init__(
        self,
        resource: GroupResource,
        skipped: Skipped,
        requests: RequestBook | None = None,
        *,
        serves: Callable[[str], bool] = lambda namespace: True,
    ) -> None:
        """`requests` gets every object, also strangers. `serves`: whether the operator serves a namespace; objects of
        other namespaces are strangers."""
        self._resource = resource
        self._skipped = skipped
        self._requests = requests
        self._serves = serves
        self._known: dict[tuple[str, str], _Known] = {}
        self._listing: set[tuple[str, str]] = set()
        self._deletions: dict[tuple[str, str], Deletion] = {}
        """Deletions of pods that are under way: few at any time."""
        self._unread: set[tuple[JobKey, str]] = set()
        self.rewound = False
        """A list has shown an object older than it was known before. A list is the latest state, so the cluster was
        restored from a backup."""

    def __len__(self) -> int:
        return len(self._known)

    def existing(self) -> frozenset[tuple[JobKey, str]]:
        """(key, name) of every object of a job, also of objects in the last list that cannot be read."""
        return frozenset((entry.change.key, entry.change.name) for entry in self._known.values()) | self._unread

    # -- lists -------------------------------------------------------------------------------------

    def begin_list(self) -> None:
        """A list begins, maybe after one that was cut off: its pages do not show what exists."""
        self._listing, self._unread = set(), set()

    def page(self, objects: Sequence[Json]) -> list[Projected]:
        out: list[Projected] = []
        self._skipped.take_each(objects, lambda obj: self._put_listed(obj, out))
        return out

    def _put_listed(self, obj: Json, out: list[Projected]) -> None:
        meta = obj["metadata"]
        identity = (meta.get("namespace", ""), meta["name"])
        self._listing.add(identity)
        known = self._known.get(identity)
        self.rewound = self.rewound or (known is not None and int(meta["resourceVersion"]) < known.rv)
        try:
            self._put_object(identity, obj, meta, out)
        except Exception:
            # It exists although it cannot be read: the sweep must not delete its last readable state.
            if self._serves(identity[0]) and (it := identify(self._resource, obj)) is not None:
                self._unread.add((it.key, it.name))
            raise

    def end_list(self, rv: int) -> list[Projected]:
        """The list is complete. Returns the deletions of objects that it did not show, at the resourceVersion of the
        list."""
        if self._requests is not None:
            self._requests.keep(self._listing.__contains__)
        self._skipped.keep("/".join(filter(None, identity)) for identity in self._listing)
        gone = [(identity, known.change) for identity, known in self._known.items() if identity not in self._listing]
        self._listing = set()
        for identity, _ in gone:
            self._forget(identity)
        return [Projected(deletion(change, rv)) for _, change in gone]

    # -- watch events ------------------------------------------------------------------------------

    def event(self, kind: str, obj: Json) -> list[Projected]:
        """`kind` is ADDED, MODIFIED or DELETED."""
        out: list[Projected] = []
        self._skipped.take_one(obj, lambda obj: self._apply_event(kind, obj, out))
        if kind == "DELETED":
            self._skipped.forget(obj)
        return out

    def _apply_event(self, kind: str, obj: Json, out: list[Projected]) -> None:
        meta = obj["metadata"]
        rv = int(meta["resourceVersion"])
        identity = (meta.get("namespace", ""), meta["name"])
        if kind != "DELETED":
            self._put_object(identity, obj, meta, out)
            return
        if self._requests is not None:
            self._requests.remove(identity)
        known = self._known.get(identity)
        if known is None:
            # An earlier watcher may have projected the object.
            if self._serves(identity[0]) and (last := identify(self._resource, obj)) is not None:
                out.append(Projected(last))
        elif rv >= known.rv:
            self._forget(identity)
            out.append(Projected(deletion(known.change, rv)))

    def _put_object(self, identity: tuple[str, str], obj: Json, meta: Json, out: list[Projected]) -> None:
        rv = int(meta["resourceVersion"])
        # Before the look at the owner: pods of strangers take room on nodes, too.
        requests = self._requests.put(identity, obj, rv) if self._requests is not None else None
        known = self._known.get(identity)
        # A list shows most objects as the watch has shown them.
        if known is not None and rv <= known.rv:
            return
        projected = None
        if self._serves(identity[0]):
            projected = project(self._resource, obj, self._deletions.get(identity), requests)
        if known is not None and (projected is None or projected.change.key != known.change.key):
            # The object has a new owner. Its former job must see it go.
            out.append(Projected(deletion(known.change, rv)))
        if projected is None:
            self._forget(identity)
            return
        # Written, but begins no pass: a report of progress or an own status write brings nothing new to decide on.
        if known is not None and projected.decisive and projected.decisive == known.decisive:
            projected = replace(projected, change=replace(projected.change, quiet=True))
        change = projected.change
        # Without the record, which only the store keeps; and shared between versions, to save memory.
        slim = (
            known.change
            if known is not None and known.change.key == change.key
            else Change(change.key, change.resource, change.name, rv, None, is_job=change.is_job)
        )
        self._known[identity] = _Known(rv, slim, projected.decisive)
        if projected.deletion is None:
            self._deletions.pop(identity, None)
        else:
            self._deletions[identity] = projected.deletion
        out.append(projected)

    def _forget(self, identity: tuple[str, str]) -> None:
        self._known.pop(identity, None)
        self._deletions.pop(identity, None)
