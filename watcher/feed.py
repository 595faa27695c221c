"""The feed of one event queue: a reflector for each watched resource (and namespace), and watches that run concurrently
with its lists.

Jobs are listed last, so that a pass can decide on a job as soon as it is shown. New jobs do not wait for the end of a
long list: an early watch shows them.

Starts no thread; `watcher.term` does. A stopped feed cannot be started again: the next one starts from nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from tjworker.api.resources import PODS
from tjworker.base import GroupResource
from tjworker.kube.reflector import Reflector
from tjworker.kube.resources import RESOURCES, watched
from tjworker.scope import Scope, Selection
from watcher.event_queue import EventQueue
from watcher.health import Pulse
from watcher.isolation import Skipped
from watcher.progress import counting_source, is_counting, is_of_children, resource_of
from watcher.projector import Projector
from watcher.resume import Start

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Watchlist:
    """What an operator watches."""

    scope: Scope
    kinds: Container[GroupResource]
    """The job kinds that are served."""
    gang: str
    """The gang scheduler whose PodGroups are watched."""
    counts_outside: bool
    """Also count what the pods of other namespaces request, for the autoscaler, if they may be listed."""


class MakeReflector(Protocol):
    """`Reflector`, with what all reflectors of a watcher share."""

    def __call__(
        self,
        resource: GroupResource,
        handler: Projector,
        selection: Selection,
        *,
        source: str = "",
        optional: bool | None = None,
        start_version: int = 0,
        may_list: Callable[[], bool] = ...,
    ) -> Reflector: ...


class MakeProjector(Protocol):
    """`Projector`, with what all projectors of a feed share."""

    def __call__(
        self,
        source: str,
        *,
        on_listed: Callable[[], None] = ...,
        on_second_page: Callable[[int, str], None] = ...,
        resumes: str = "",
    ) -> Projector: ...


class Feed:
    def __init__(
        self,
        queue: EventQueue,
        watchlist: Watchlist,
        make_reflector: MakeReflector,
        make_projector: MakeProjector,
        *,
        start: Callable[[str, Callable[[], None]], None],
        since: Mapping[str, int],
    ) -> None:
        """`make_projector` makes projectors that put into `queue`. `start(name, run)` runs a watch in a thread.
        `since`: source -> version that was projected before Redis was emptied: an early watch begins there, so that a
        newer job does not wait for its place in the list."""
        self.queue = queue
        self._make_reflector = make_reflector
        self._make_projector = make_projector
        self._start = start
        self._since = since
        self.skipped: dict[str, Skipped] = {}
        """Source -> its objects that could not be read."""
        self._projectors: dict[str, Projector] = {}
        self._in: set[str] = set()
        """Sources whose lists are in the queue."""
        self.resumed: dict[str, Reflector] = {}
        """Source -> its resumed watch, which ends when the list of that source is complete."""
        self.early: dict[str, Reflector] = {}
        """Source of jobs -> the early watch during its first list, which ends like a resumed one."""
        # Jobs come last: they wait until their children are listed.
        rows = sorted(watched(watchlist.kinds, watchlist.gang), key=lambda row: row.is_job)
        scope = watchlist.scope
        self._selections: dict[str, Selection] = {}
        """Source -> what its reflector selects."""
        self.reflectors = [
            self._make_reflector_of(row.name, selection)
            for row in rows
            for selection in (scope.selections() if row.namespaced else (Selection(),))
        ]
        if watchlist.counts_outside:
            self.reflectors += [self._make_counting_reflector(selection) for selection in scope.outside()]

    def _make_counting_reflector(self, selection: Selection) -> Reflector:
        """The reflector of pods that take room on nodes but belong to no job of this operator."""
        source = counting_source(PODS, selection.namespace)
        handler = self._make_projector(source)
        self.skipped[source] = handler.skipped
        self._projectors[source] = handler
        return self._make_reflector(PODS, handler, selection, source=source, optional=True)

    def _make_reflector_of(self, resource: GroupResource, selection: Selection) -> Reflector:
        namespace = selection.namespace
        source = f"{resource}/{namespace}" if namespace else resource
        self._selections[source] = selection
        on_listed = partial(self._end_concurrent_watches, source)
        if not RESOURCES[resource].is_job:
            handler = self._make_projector(source, on_listed=on_listed)
            reflector = self._make_reflector(resource, handler, selection)
        else:
            early = partial(self._watch_early, source)
            handler = self._make_projector(source, on_listed=on_listed, on_second_page=early)
            may_list = partial(self._children_are_in, namespace)
            reflector = self._make_reflector(resource, handler, selection, may_list=may_list)
        self.skipped[source] = handler.skipped
        self._projectors[source] = handler
        return reflector

    def _children_are_in(self, namespace: str) -> bool:
        """True if the children of the namespace's jobs are listed: without them a job would look as if it had none. If
        they may not be listed, the other namespaces do not wait for them."""
        return all(
            one.source in self._in
            for one in self.reflectors
            if one.namespace == namespace and is_of_children(one.source)
        )

    def resume(self, start: Start) -> None:
        """Create the resumed watches. Each begins where the last watcher stopped, and needs no list."""
        for one in self.reflectors:
            if version := start.positions.get(one.source):
                self.resumed[one.source] = self._watch_from(one.source, version, start.cluster)
        if self.resumed:
            log.info("resuming where the last watcher stopped; the lists follow", watches=len(self.resumed))

    def _watch_early(self, source: str, version: int, cluster: str) -> None:
        """Start the early watch of jobs during their first list, from the version of the list, or from the version that
        was projected before Redis was emptied. A later list needs none: until it, the source's watch has shown every
        job."""
        # Without an id of the cluster, a watch could begin in another cluster than the list.
        if source in self._in or source in self.resumed or source in self.early or not cluster:
            return
        since = min(version, self._since.get(source, version))
        self.early[source] = watch = self._watch_from(source, since, cluster)
        self._start(f"early watch {source}", watch.run)

    def _watch_from(self, source: str, version: int, cluster: str) -> Reflector:
        handler = self._make_projector(source, resumes=cluster)
        return self._make_reflector(resource_of(source), handler, self._selections[source], start_version=version)

    def _end_concurrent_watches(self, source: str) -> None:
        self._in.add(source)
        # The list is in, and the source's own watch begins at its version: a second watch would show all of it twice.
        for concurrent in (self.resumed, self.early):
            if source in concurrent:
                concurrent[source].stop()

    def stop(self) -> None:
        for reflector in (*self.resumed.values(), *tuple(self.early.values()), *self.reflectors):
            reflector.stop()
        self.queue.close()

    # -- health ------------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """True if the last term's projection is kept up to date: each of its watches is resumed, or its list is
        complete."""
        kinds = {one.resource for one in self.resumed.values()}
        return bool(kinds) and all(self._is_followed(one, kinds) for one in self.reflectors)

    def _is_followed(self, reflector: Reflector, kinds: set[GroupResource]) -> bool:
        if reflector.vitals.synced or is_counting(reflector.source) or RESOURCES[reflector.resource].is_named:
            return True
        resumed = self.resumed.get(reflector.source)
        if resumed is None:
            # Nodes, a kind that was not installed, or a namespace of which nothing is known yet.
            return reflector.resource not in kinds
        return resumed.settled.is_set() and not resumed.stopped

    def pulses(self, now: float) -> Mapping[str, Pulse]:
        return {
            one.source: Pulse(
                one.vitals.state,
                one.vitals.synced,
                now - one.vitals.last_sign_at,
                one.vitals.problem,
                self.skipped[one.source].objects,
                self.skipped[one.source].times,
                self._projectors[one.source].objects,
            )
            for one in self.reflectors
        }
