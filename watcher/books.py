"""What the projection writer remembers of jobs. PURE.

The store drops old news by version. These records have no versions, so an event older than what the resumed watch has
shown must not reach them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Set

from tjworker.api.kinds.base import Named
from tjworker.base import GroupResource, JobKey, parse_key
from tjworker.store.projection import Change
from watcher.event_queue import Batch, ProjectedPage, is_of_resumed_watch
from watcher.projection import Projected


class FinishedJobs:
    """The finished jobs. Their children are not written, and changes of nodes do not wake them."""

    def __init__(self) -> None:
        self._uids: dict[JobKey, str] = {}

    def __len__(self) -> int:
        return len(self._uids)

    def __contains__(self, key: JobKey) -> bool:
        return key in self._uids

    def take(self, job: Projected) -> None:
        if job.change.finished:
            self._uids[job.change.key] = job.change.job_uid
        else:
            self._uids.pop(job.change.key, None)

    def has_child(self, child: Projected) -> bool:
        """True if this is a child of a finished job. A child with another UID belongs to an earlier or a later job of
        that name."""
        # A deletion does not say whose child it was. The store knows.
        finished = self._uids.get(child.change.key)
        return finished is not None and child.change.record is not None and child.change.job_uid in ("", finished)


JobCounts = Mapping[tuple[GroupResource, str], int]
"""(resource, phase) -> jobs."""
EachJob = Mapping[JobKey, tuple[str, int]]
"""Phase and restarts; in the order in which they were first seen."""


class Jobs:
    """Each job's phase and restarts, for the metrics, and what it waits for. Written by one thread; `counts` and `each`
    may be read by any."""

    def __init__(self) -> None:
        self._waits: dict[JobKey, Named] = {}
        self._jobs: dict[JobKey, tuple[str, int]] = {}
        self._counts: dict[tuple[GroupResource, str], int] = {}

    def counts(self) -> JobCounts:
        return dict(self._counts)

    def each(self) -> EachJob:
        return dict(self._jobs)

    def take(self, job: Projected) -> None:
        if job.named is None:
            self._waits.pop(job.change.key, None)
        else:
            self._waits[job.change.key] = job.named
        self._put_job(job.change.key, None if job.change.record is None else job.phase, job.restarts)

    def waiting_for(self, named: Set[Named]) -> list[JobKey]:
        """The jobs that wait for one of these objects."""
        return sorted(key for key, one in self._waits.items() if one in named) if named else []

    def keep(self, source: str, keys: Set[JobKey]) -> None:
        """Forget the jobs of this source that its complete list does not show."""
        resource, _, namespace = source.partition("/")
        for key in [key for key in self._jobs if key not in keys]:
            name = parse_key(key)
            if name.resource == resource and namespace in ("", name.namespace):
                self._put_job(key, None)

    def _put_job(self, key: JobKey, phase: str | None, restarts: int = 0) -> None:
        was = self._jobs.get(key)
        # The deletion of a job that this term has not shown.
        if was is None and phase is None:
            return
        resource = parse_key(key).resource
        if was is not None:
            self._counts[resource, was[0]] -= 1
        if phase is None:
            self._waits.pop(key, None)
            self._jobs.pop(key, None)
        else:
            # Interned: JSON brings a new string for each of ten thousand jobs.
            self._jobs[key] = sys.intern(phase), restarts
            self._counts[resource, phase] = self._counts.get((resource, phase), 0) + 1


class Overlap:
    """The objects that both a resumed watch and the concurrent list of its source show."""

    def __init__(self) -> None:
        self._shown: dict[str, dict[tuple[JobKey, str], int]] = {}
        """Source -> object -> the newest version that the resumed watch has shown, until the list's watch is as far."""
        self._paged: dict[str, dict[tuple[JobKey, str], int]] = {}
        """Source of jobs -> object -> the version in the pages of its list, until the list is complete: a concurrent
        watch may begin at an earlier version."""

    def __contains__(self, source: str) -> bool:
        return source in self._shown

    def begin(self, batch: Batch) -> None:
        """Call before a batch is projected."""
        if is_of_resumed_watch(batch):
            shown = self._shown.setdefault(batch.source, {})
            for change in (projected.change for projected in batch.changes):
                which = (change.key, change.name)
                shown[which] = max(change.rv, shown.get(which, 0))
        elif isinstance(batch, ProjectedPage):
            pages = self._paged.setdefault(batch.source, {})
            pages |= {(one.change.key, one.change.name): one.change.rv for one in batch.changes if one.change.is_job}

    def is_stale(self, batch: Batch, change: Change) -> bool:
        """True if the concurrent watch or list has already shown a newer version."""
        other = self._paged if is_of_resumed_watch(batch) else self._shown
        return change.rv < other.get(batch.source, {}).get((change.key, change.name), 0)

    def end(self, batch: Batch) -> None:
        """Call after a batch was projected."""
        if is_of_resumed_watch(batch):
            return
        if batch.position:
            self._paged.pop(batch.source, None)
        shown = self._shown.get(batch.source)
        # From here on the source's own watch shows only newer versions.
        if shown is not None and all(rv <= batch.position for rv in shown.values()):
            del self._shown[batch.source]
