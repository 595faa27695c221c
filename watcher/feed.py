"""The feed of one event queue: a reflector for each watched resource (and namespace), and the resumed watches beside
them.

Starts no thread; `watcher.term` does. A feed that is stopped is over, another one begins with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial

import structlog

from tjworker.api.kinds import KINDS
from tjworker.base import GroupResource
from tjworker.kube.reflector import Reflector
from tjworker.kube.resources import RESOURCES, watched
from watcher.event_queue import EventQueue
from watcher.health import Pulse
from watcher.isolation import Skipped
from watcher.outage import Outage
from watcher.projector import Projector
from watcher.resume import Start

log = structlog.get_logger(__name__)


class Feed:
    def __init__(
        self,
        queue: EventQueue,
        make_reflector: Callable[..., Reflector],
        *,
        cluster_id: Callable[[], str],
        outage: Outage,
        namespaces: Sequence[str] = (),
        kinds: Container[GroupResource] = KINDS,
        gang: str = "none",
    ) -> None:
        """`kinds`: the job kinds that are served. `gang`: the gang scheduler whose PodGroups are watched."""
        self.queue = queue
        self._make_reflector = make_reflector
        self._cluster_id = cluster_id
        self._outage = outage
        self.skipped: dict[str, Skipped] = {}
        """Source -> its objects that could not be read."""
        self._projectors: dict[str, Projector] = {}
        self._in: set[str] = set()
        """Sources whose lists are on the queue."""
        self.resumed: dict[str, Reflector] = {}
        """Source -> its resumed watch, which ends when the list of that source is in."""
        # In single namespaces, jobs come last: they are held until what belongs to them is known.
        rows = watched(kinds, gang)
        if namespaces:
            rows = tuple(sorted(rows, key=lambda row: row.is_job))
        self.reflectors = [
            self._reflector(row.name, namespace)
            for row in rows
            for namespace in ((namespaces or ("",)) if row.namespaced else ("",))
        ]

    def _reflector(self, resource: GroupResource, namespace: str) -> Reflector:
        source = f"{resource}/{namespace}" if namespace else resource
        handler = Projector(source, self.queue, self._cluster_id, self._outage, on_listed=partial(self._listed, source))
        self.skipped[source] = handler.skipped
        self._projectors[source] = handler
        if not (namespace and RESOURCES[resource].is_job):
            return self._make_reflector(resource, handler, namespace=namespace)
        may_list = partial(self._children_are_in, namespace)
        return self._make_reflector(resource, handler, namespace=namespace, may_list=may_list)

    def _children_are_in(self, namespace: str) -> bool:
        """No job of a namespace is shown before all that belongs to it: where that may not be listed, the job would
        look as if it had nothing, and the other namespaces do not wait for it."""
        return all(
            one.source in self._in
            for one in self.reflectors
            if one.namespace == namespace and not RESOURCES[one.resource].is_job
        )

    def resume(self, start: Start) -> None:
        """Make the resumed watches: each begins where the last watcher stopped and needs no list."""
        for one in self.reflectors:
            if version := start.positions.get(one.source):
                handler = Projector(one.source, self.queue, self._cluster_id, self._outage, resumes=start.cluster)
                self.resumed[one.source] = self._make_reflector(
                    one.resource, handler, namespace=one.namespace, start_version=version
                )
        if self.resumed:
            log.info("resuming where the last watcher stopped; the lists follow", watches=len(self.resumed))

    def _listed(self, source: str) -> None:
        self._in.add(source)
        if source in self.resumed:
            self.resumed[source].stop()

    def stop(self) -> None:
        for reflector in (*self.resumed.values(), *self.reflectors):
            reflector.stop()
        self.queue.close()

    # -- health ------------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """Whether what the last term has projected is kept up to date: each of its watches is resumed, or its list is
        in."""
        kinds = {one.resource for one in self.resumed.values()}
        return bool(kinds) and all(self._follows(one, kinds) for one in self.reflectors)

    def _follows(self, reflector: Reflector, kinds: set[GroupResource]) -> bool:
        if reflector.vitals.synced:
            return True
        resumed = self.resumed.get(reflector.source)
        if resumed is None:  # nodes, and kinds that were not installed; or a namespace of which nothing is known yet
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
