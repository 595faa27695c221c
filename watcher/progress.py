"""What the next watcher resumes from: the history that the projection is of, how far each watch has been projected in
it, and which lists are in. PURE.

A namespace whose first lists are refused for want of permission is not waited for, as long as another one is served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tjworker.base import GroupResource
from tjworker.kube.resources import RESOURCES
from watcher.event_queue import Batch

COUNTED = "*"


class BeganAnew(Exception):
    """Lists are of another history than the projection."""


class History:
    """A resourceVersion means something only in the history of one cluster. When a list is of another cluster, or of
    the same one restored from a backup, what Redis remembers would hide every new object of an old name."""

    def __init__(self, cluster: str = "", progress: Mapping[str, int] | None = None) -> None:
        """As an earlier writer left them."""
        self.cluster = cluster
        self._shown = dict(progress or {})

    def check(self, batch: Batch) -> None:
        """Raises BeganAnew. A list is the latest state: in one history none is behind an earlier list or a watch."""
        if batch.cluster and self.cluster and batch.cluster != self.cluster:
            raise BeganAnew(f"this is cluster {batch.cluster}, and the projection is of {self.cluster}")
        shown = self._shown.get(batch.source, 0)
        if batch.rewound or 0 < batch.list_version < shown:
            raise BeganAnew(
                f"the list of {batch.source}, at {batch.list_version}, is older than the one before, at {shown}"
            )
        self.cluster = self.cluster or batch.cluster
        if not batch.resumed:  # the list beside a resumed watch may have begun before it
            self._shown[batch.source] = max(shown, batch.position)


class Progress:
    """Until the sweep after a list is over, Redis may hold more than exists: progress of that source waits for it."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._sources = frozenset(sources)
        self._unwritten: dict[str, int] = {}
        self._unswept: dict[str, int] = {}
        """Source -> its progress, until its sweep is over."""
        self._listed: set[str] = set()
        self._refused: set[str] = set()
        """Sources in a namespace that may not be listed yet."""

    def note(self, batch: Batch) -> None:
        source = batch.source
        if batch.refused and namespace_of(source):
            self._refused.add(source)
        if batch.existing is not None:
            self._unswept[source] = 0
        if batch.position:
            table = self._unswept if source in self._unswept else self._unwritten
            table[source] = max(batch.position, table.get(source, 0))
        if batch.listed and source not in self._unswept:
            self._listed.add(source)

    def swept(self, source: str) -> None:
        self._unwritten[source] = max(self._unswept.pop(source), self._unwritten.get(source, 0))
        self._listed.add(source)

    def has_list(self, source: str) -> bool:
        """Its list has been projected, if not swept."""
        return source in self._listed or source in self._unswept

    @property
    def complete(self) -> bool:
        """Every list has been projected and swept, of every namespace that may be listed."""
        return self._has(self._sources)

    @property
    def has_children(self) -> bool:
        """Every list of what belongs to jobs has."""
        return self._has(
            source for source in self._sources if not RESOURCES[resource_of(source)].is_job and not is_counting(source)
        )

    def _has(self, sources: Iterable[str]) -> bool:
        unserved = self.unserved
        wanted = frozenset(source for source in sources if namespace_of(source) not in unserved)
        return self._listed >= wanted and (not unserved or any(map(namespace_of, wanted)))

    @property
    def unserved(self) -> frozenset[str]:
        """Namespaces of which something that is needed may not be listed."""
        return frozenset(namespace_of(source) for source in self._refused - self._listed)

    def take(self) -> dict[str, int]:
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
