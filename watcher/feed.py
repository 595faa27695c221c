"""The feed of one event queue: a reflector for each watched resource (and namespace), and the resumed watches beside
them.

Starts no thread; `watcher.term` does. A feed that is stopped is over, another one begins with nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog

from tjworker.base import GroupResource
from tjworker.kube.reflector import Reflector
from tjworker.kube.resources import WATCHED
from watcher.event_queue import EventQueue
from watcher.health import Pulse
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
    ) -> None:
        self.queue = queue
        self._make_reflector = make_reflector
        self._cluster_id = cluster_id
        self._outage = outage
        self.resumed: dict[str, Reflector] = {}
        """Source -> its resumed watch, which ends when the list of that source is in."""
        self.reflectors = [
            self._reflector(row.name, namespace)
            for row in WATCHED
            for namespace in ((namespaces or ("",)) if row.namespaced else ("",))
        ]

    def _reflector(self, resource: GroupResource, namespace: str) -> Reflector:
        source = f"{resource}/{namespace}" if namespace else resource
        handler = Projector(source, self.queue, self._cluster_id, self._outage, on_listed=partial(self._listed, source))
        return self._make_reflector(resource, handler, namespace=namespace)

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
            one.source: Pulse(one.vitals.state, one.vitals.synced, now - one.vitals.last_sign_at, one.vitals.problem)
            for one in self.reflectors
        }
