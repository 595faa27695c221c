"""The sweep after a list: removes the records that are absent from the list, which went away while no watcher ran.

It reads Redis in short parts, so that new events do not wait for all of it. A record newer than the list stays: the
store drops a deletion that is older. Safe to run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial

import structlog

from tjworker.api.resources import NODES
from tjworker.base import GroupResource, JobKey
from tjworker.kube.resources import RESOURCES
from tjworker.store.projection import Change, Projection
from watcher.event_queue import ListEnd
from watcher.redis_retry import RedisRetry

log = structlog.get_logger(__name__)

SWEEP_KEYS = 1_000
"""Read at a time; 1,000 finished jobs take Redis about 2 ms."""


class Sweep:
    """Compares what Redis holds of one resource with the first list of the term."""

    def __init__(
        self,
        projection: Projection,
        redis: RedisRetry,
        token: int,
        listed: ListEnd,
        known_nodes: Container[str] = (),
        serves: Callable[[str], bool] = lambda namespace: True,
    ) -> None:
        """`known_nodes`: the nodes that this term has shown so far, also after the list. Node records have no version
        by which the store could see that a deletion is older. `serves`: whether the operator serves a namespace; the
        list does not show records of other namespaces, which an earlier watcher may have left."""
        self.source = listed.source
        self.keys: list[JobKey] = []
        """Jobs that lost a record: queued, to be published."""
        self.gone_nodes: list[str] = []
        self._projection = projection
        self._redis = redis
        self._token = token
        self._known_nodes = known_nodes
        self._serves = serves
        self._existing = listed.existing or frozenset()
        self._version = listed.version
        resource, _, self._namespace = listed.source.partition("/")
        self._resource = GroupResource(resource)
        self._parts = self._sweep_nodes() if self._resource == NODES else self._sweep()

    def step(self) -> bool:
        """Make one short read. True if the sweep is over."""
        return next(self._parts, self) is self

    def _sweep_nodes(self) -> Iterator[None]:
        # In one part: a cluster has few nodes, compared with pods.
        shown = {name for _, name in self._existing}
        held = self._redis(lambda: list(self._projection.known_nodes()))
        gone = {name: None for name in held if name not in shown and name not in self._known_nodes}
        if gone:
            self._redis(lambda: self._projection.apply_nodes(self._token, gone))
            self.gone_nodes.extend(gone)
        yield from ()

    def _sweep(self) -> Iterator[None]:
        resource, is_job = self._resource, RESOURCES[self._resource].is_job
        keys = self._redis(lambda: list(self._projection.known_keys()))
        held = [(key, key.rpartition("/")[2]) for key in keys if is_job and _is_of(key, resource)]
        for start in range(0, 0 if is_job else len(keys), SWEEP_KEYS):
            # Between two parts the writer writes events.
            yield
            part = keys[start : start + SWEEP_KEYS]
            held += self._redis(partial(self._projection.known_children, part, resource))
        stale = [
            Change(key, resource, name, self._version, None, is_job=is_job)
            for key, name in held
            if self._covers(_namespace_of(key)) and (key, name) not in self._existing
        ]
        if stale:
            log.info("removing records absent from the list", resource=self.source, count=len(stale))
            # `free` and not `apply`: a full Redis takes it, and these deletions may be what makes room.
            self.keys.extend(self._redis(lambda: self._projection.free(self._token, stale)))

    def _covers(self, namespace: str) -> bool:
        return self._namespace in ("", namespace) or not self._serves(namespace)


def _namespace_of(key: JobKey) -> str:
    """'' for a key of another form, as another version of the operator writes it."""
    return key.partition("/")[2].partition("/")[0]


def _is_of(key: JobKey, resource: GroupResource) -> bool:
    """True for keys of this resource, and for keys of a kind that this version does not know, such as those of an
    earlier version without the API group. No list shows their jobs, and a resync would queue them for ever."""
    of = GroupResource(key.partition("/")[0])
    return of == resource or of not in RESOURCES
