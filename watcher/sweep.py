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
from watcher.event_queue import Batch
from watcher.redis_retry import RedisRetry

log = structlog.get_logger(__name__)

SWEEP_KEYS = 1_000
"""Read at a time; 1,000 finished jobs take Redis about 2 ms."""


class Sweep:
    """What Redis holds of one resource, compared with `batch.existing`."""

    def __init__(
        self,
        projection: Projection,
        redis: RedisRetry,
        token: int,
        batch: Batch,
        known_nodes: Container[str] = (),
        serves: Callable[[str], bool] = lambda namespace: True,
    ) -> None:
        """`known_nodes`: as this term has shown them so far, also after the list. Their records have no version by
        which the store would know that a deletion is the older news. `serves`: whether the operator serves a namespace;
        no list shows what an earlier watcher has left of others."""
        self.source = batch.source
        self.keys: list[JobKey] = []
        """Jobs that lost a record: queued, to be published."""
        self.gone_nodes: list[str] = []
        self._projection = projection
        self._redis = redis
        self._token = token
        self._known_nodes = known_nodes
        self._serves = serves
        self._existing = batch.existing or frozenset()
        self._version = batch.position
        resource, _, self._namespace = batch.source.partition("/")
        self._resource = GroupResource(resource)
        self._parts = self._sweep_nodes() if self._resource == NODES else self._sweep()

    def step(self) -> bool:
        """One short read. True when the sweep is over."""
        return next(self._parts, self) is self

    def _sweep_nodes(self) -> Iterator[None]:
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
            self.keys.extend(self._redis(lambda: self._projection.free(self._token, stale)))

    def _covers(self, namespace: str) -> bool:
        return self._namespace in ("", namespace) or not self._serves(namespace)


def _namespace_of(key: JobKey) -> str:
    """'' for a key of another form, which another version has written."""
    return key.partition("/")[2].partition("/")[0]


def _is_of(key: JobKey, resource: GroupResource) -> bool:
    """Also a key of a kind that this version does not know: no list shows its job, and a resync would queue it for
    ever. An earlier version wrote keys without the API group."""
    of = GroupResource(key.partition("/")[0])
    return of == resource or of not in RESOURCES
