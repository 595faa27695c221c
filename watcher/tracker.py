"""One resource's objects, as the informer has passed them on: what is new, what is old news, what has vanished. PURE.

Fed with pages of lists and watch events, it gives the changes to pass on: ordered, each once, and complete (an object that
a relist no longer shows becomes a deletion). Keeps per object of ours only its rv and key, of strangers nothing.
Feeding it the same twice gives nothing the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tjworker.store.port import Change
from watcher.loads import LoadBook
from watcher.projection import Projected, Unprojectable, deletion

Json = Mapping[str, Any]
Project = Callable[[Json], Projected | None]


@dataclass(frozen=True, slots=True)
class _Known:
    rv: int
    change: Change
    """Without its record: what a deletion is made from."""


class Tracker:
    """`position` is the resourceVersion up to which everything has been passed on; 0 before the first whole list.
    `rewound`: a list has shown an object older than it was known before. A list is the latest state, so this is no late
    news: the cluster's history went back (restored from a backup)."""

    def __init__(self, project: Project, loads: LoadBook | None = None) -> None:
        """`loads` is told of every object, strangers too."""
        self._project = project
        self._loads = loads
        self._known: dict[tuple[str, str], _Known] = {}
        self._listing: set[tuple[str, str]] | None = None
        self.position = 0
        self.rewound = False

    def __len__(self) -> int:
        return len(self._known)

    def known(self) -> list[Change]:
        """Every object of ours that exists, without records."""
        return [entry.change for entry in self._known.values()]

    # -- lists -----------------------------------------------------------------------------------------------------

    def begin_list(self) -> None:
        """A list starts (again): pages seen of an earlier, unfinished one mean nothing for what has vanished."""
        self._listing = set()

    def page(self, items: Sequence[Json]) -> list[Projected]:
        out: list[Projected] = []
        for obj in items:
            meta = obj["metadata"]
            identity = (meta.get("namespace", ""), meta["name"])
            if self._listing is not None:
                self._listing.add(identity)
                known = self._known.get(identity)
                self.rewound = self.rewound or (known is not None and int(meta["resourceVersion"]) < known.rv)
            self._put(identity, obj, meta, out)
        return out

    def end_list(self, rv: int) -> list[Projected]:
        """The list is whole: what it did not show is gone, at the list's own resourceVersion."""
        shown = self._listing or set()
        self._listing = None
        if self._loads is not None:
            self._loads.keep(shown.__contains__)
        gone = [identity for identity in self._known if identity not in shown]
        self.position = rv
        return [Projected(deletion(self._known.pop(identity).change, rv)) for identity in gone]

    # -- watch events ------------------------------------------------------------------------------------------------

    def bookmark(self, rv: int) -> None:
        self.position = max(self.position, rv)

    def event(self, kind: str, obj: Json) -> list[Projected]:
        """`kind` is ADDED, MODIFIED or DELETED. A server may repeat itself after a reconnect; then nothing comes out."""
        meta = obj["metadata"]
        rv = int(meta["resourceVersion"])
        if rv <= self.position:
            return []
        self.position = rv
        identity = (meta.get("namespace", ""), meta["name"])
        out: list[Projected] = []
        if kind == "DELETED":
            if self._loads is not None:
                self._loads.remove(identity)
            known = self._known.get(identity)
            if known is None:
                out.extend(self._never_seen(obj, rv))
            elif rv >= known.rv:
                del self._known[identity]
                out.append(Projected(deletion(known.change, rv)))
        else:
            self._put(identity, obj, meta, out)
        return out

    def _never_seen(self, obj: Json, rv: int) -> list[Projected]:
        """What a deletion means of which nothing was known before: an earlier watcher may have passed the object on."""
        try:
            last = self._project(obj)
        except Unprojectable:
            return []
        return [Projected(deletion(last.change, rv))] if last is not None else []

    def forget(self) -> None:
        """Everything is news again (the projection was lost)."""
        self._known.clear()
        self._listing = None
        self.position = 0
        if self._loads is not None:
            self._loads.clear()
        self.rewound = False

    def _put(self, identity: tuple[str, str], obj: Json, meta: Json, out: list[Projected]) -> None:
        rv = int(meta["resourceVersion"])
        if self._loads is not None:
            self._loads.put(identity, obj, rv)
        known = self._known.get(identity)
        if known is not None and rv <= known.rv:
            return
        try:
            projected = self._project(obj)
        except Unprojectable:
            # One object that cannot be read must not stop the stream; what was known of it stays.
            return
        if known is not None and (projected is None or projected.change.key != known.change.key):
            # It changed hands: the job that had it must see it go.
            out.append(Projected(deletion(known.change, rv)))
        if projected is None:
            self._known.pop(identity, None)
            return
        change = projected.change
        slim = (
            known.change
            if known is not None and known.change.key == change.key
            else Change(change.key, change.resource, change.name, rv, None, is_job=change.is_job)
        )
        self._known[identity] = _Known(rv, slim)
        out.append(projected)
