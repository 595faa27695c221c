"""From where the next watcher resumes: the history of the projection, how far each watch has been projected, and which
lists are complete. PURE.

The projection does not wait for a namespace whose first lists are forbidden, as long as another namespace is served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from tjworker.base import GroupResource
from tjworker.kube.resources import RESOURCES
from watcher.event_queue import Batch, Forbidden, ListEnd, NotInstalled, ProjectedPage, WatchEvents, is_of_resumed_watch

COUNTED = "*"


class BeganAnew(Exception):
    """The lists belong to another history than the projection."""


class ClusterHistory:
    """The history of one cluster, in which resourceVersions can be compared. When a list comes from another cluster, or
    from the same one restored from a backup, the records in Redis would hide each new object that has an old name."""

    def __init__(self, cluster: str = "", progress: Mapping[str, int] | None = None) -> None:
        """`cluster`, `progress`: as an earlier writer has left them in Redis."""
        self.cluster = cluster
        self._shown = dict(progress or {})

    def check(self, batch: Batch) -> None:
        """Raise BeganAnew if a list belongs to another history. A list is the latest state: within one history it is
        never behind an earlier list or a watch."""
        shown = self._shown.get(batch.source, 0)
        if isinstance(batch, ProjectedPage | ListEnd):
            if batch.cluster and self.cluster and batch.cluster != self.cluster:
                raise BeganAnew(f"this is cluster {batch.cluster}, and the projection is of {self.cluster}")
            if batch.rewound or 0 < batch.version < shown:
                raise BeganAnew(
                    f"the list of {batch.source}, at {batch.version}, is older than the one before, at {shown}"
                )
            self.cluster = self.cluster or batch.cluster
        # The list that runs concurrently with a resumed watch may have begun before it.
        if not is_of_resumed_watch(batch):
            self._shown[batch.source] = max(shown, batch.position)


class ProjectionProgress:
    """How far each source has been projected. The progress of a source waits for the sweep after its list: until then
    Redis may hold objects that do not exist."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._sources = frozenset(sources)
        self._unwritten: dict[str, int] = {}
        self._unswept: dict[str, int] = {}
        """Source -> its progress, until its sweep is over."""
        self._listed: set[str] = set()
        self._refused: set[str] = set()
        """Sources in a namespace that may not be listed yet."""

    def note(self, batch: Batch) -> None:
        """Note a batch that the writer has projected."""
        source = batch.source
        match batch:
            case Forbidden():
                if namespace_of(source):
                    self._refused.add(source)
            case NotInstalled():
                self._note_list(source)
            case ListEnd():
                if batch.existing is not None:
                    self._unswept[source] = 0
                self._note_position(source, batch.version)
                self._note_list(source)
            case WatchEvents():
                # Workers keep what they have read of such an object until this position moves, so bookmarks do not.
                if batch.changes or not RESOURCES[resource_of(source)].is_named:
                    self._note_position(source, batch.position)
            case ProjectedPage():
                # The page wakes the jobs that wait for its objects, so what workers have read before is outdated now.
                if RESOURCES[resource_of(source)].is_named:
                    self._note_position(source, batch.version)
            case _:
                assert_never(batch)

    def _note_position(self, source: str, position: int) -> None:
        if position:
            table = self._unswept if source in self._unswept else self._unwritten
            table[source] = max(position, table.get(source, 0))

    def _note_list(self, source: str) -> None:
        if source not in self._unswept:
            self._listed.add(source)

    def note_sweep(self, source: str) -> None:
        """Note that the sweep of a source is over."""
        self._unwritten[source] = max(self._unswept.pop(source), self._unwritten.get(source, 0))
        self._listed.add(source)

    def has_list(self, source: str) -> bool:
        """True if the list of the source has been projected; its sweep may still be under way."""
        return source in self._listed or source in self._unswept

    @property
    def complete(self) -> bool:
        """True if every list has been projected and swept, of every namespace that may be listed."""
        # The projection keeps no objects that jobs name, so a list of them that fails must not stop the jobs of all
        # kinds. Workers read such objects themselves, at least every `references.CACHED_SECONDS`.
        return self._has(source for source in self._sources if not RESOURCES[resource_of(source)].is_named)

    @property
    def has_children(self) -> bool:
        """True if every list of resources that belong to jobs has been projected and swept."""
        return self._has(source for source in self._sources if is_of_children(source))

    def _has(self, sources: Iterable[str]) -> bool:
        unserved = self.unserved
        wanted = frozenset(source for source in sources if namespace_of(source) not in unserved)
        return self._listed >= wanted and (not unserved or any(map(namespace_of, wanted)))

    @property
    def unserved(self) -> frozenset[str]:
        """Namespaces in which the operator may not list a resource that it needs."""
        return frozenset(namespace_of(source) for source in self._refused - self._listed)

    def take_unwritten(self) -> dict[str, int]:
        """Source -> progress that is not in the store yet."""
        taken, self._unwritten = self._unwritten, {}
        return taken


def resource_of(source: str) -> GroupResource:
    return GroupResource(source.partition("/")[0])


def namespace_of(source: str) -> str:
    """'' for a source that is of all namespaces, of none, or of those outside the operator's scope."""
    return "" if is_counting(source) else source.partition("/")[2]


def counting_source(resource: GroupResource, namespace: str) -> str:
    """The name of a source whose objects are counted and not projected. No namespace has such a name."""
    return f"{resource}/{COUNTED}{namespace}"


def is_counting(source: str) -> bool:
    return source.partition("/")[2].startswith(COUNTED)


def is_of_children(source: str) -> bool:
    """True for a source whose objects a decision about a job needs: neither jobs, nor objects that jobs only name."""
    row = RESOURCES[resource_of(source)]
    return not row.is_job and not row.is_named and not is_counting(source)
