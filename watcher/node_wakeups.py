"""Which changes of nodes are written, and which jobs they wake: jobs with pods on a node, if the change matters to the
pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import structlog

from tjworker.api.observed import NodeRecord
from tjworker.api.records_json import decode
from tjworker.api.resources import NODES
from tjworker.base import JobKey, Terminal
from tjworker.store.projection import Projection
from watcher.books import FinishedJobs
from watcher.event_queue import Batch
from watcher.projection import Projected, node_signal
from watcher.redis_retry import RedisRetry

log = structlog.get_logger(__name__)


class NodeWakeups:
    def __init__(self, projection: Projection, redis: RedisRetry, finished: FinishedJobs) -> None:
        self._projection = projection
        self._redis = redis
        self._finished = finished
        self._pod_nodes: dict[tuple[JobKey, str], str] = {}
        self._nodes: dict[str, NodeRecord] = {}
        self._touched: set[str] = set()

    def __contains__(self, name: object) -> bool:
        """True if the node exists, as far as this term has seen."""
        return name in self._nodes

    @property
    def counts(self) -> dict[str, int]:
        return {"placed_pods": len(self._pod_nodes), "nodes": len(self._nodes)}

    def recall(self, batches: Sequence[Batch]) -> None:
        """Read the records of nodes that are new in this term, as the last writer has left them. Otherwise each node
        would look changed, and a new watcher would wake every job."""
        names = {
            p.change.name for batch in batches for p in batch.changes if p.node_record is not None
        } - self._nodes.keys()
        if not names:
            return
        for name, data in self._redis(partial(self._projection.nodes, sorted(names))).items():
            try:
                record = decode(NODES, data)
            except Terminal as error:
                # A stranger's data. The record of the node will replace it.
                log.warning("a projected node cannot be read; it is written again", name=name, error=error.message)
                continue
            if isinstance(record, NodeRecord):
                self._nodes[name] = replace(record, rv=0)

    def take_pod(self, pod: Projected, *, counts: bool) -> None:
        which = (pod.change.key, pod.change.name)
        if pod.node and counts:
            self._pod_nodes[which] = pod.node
        else:
            self._pod_nodes.pop(which, None)

    def take_node(self, projected: Projected) -> dict[str, bytes | None]:
        """The record to write; {} for a heartbeat, which changes only the resourceVersion."""
        name, record = projected.change.name, projected.node_record
        known = self._nodes.get(name)
        if record is None:
            self._nodes.pop(name, None)
            self._touched.add(name)
            return {name: None}
        timeless = replace(record, rv=0)
        # A kubelet updates its Node every few minutes even if nothing has changed.
        if timeless == known:
            return {}
        self._nodes[name] = timeless
        # Not for other differences, such as its memory: a node with pods of a hundred jobs would wake them all.
        if known is None or node_signal(known) != node_signal(timeless):
            self._touched.add(name)
        return {name: projected.change.record}

    def touch(self, names: Iterable[str]) -> None:
        """Note that these nodes are gone."""
        self._touched.update(names)

    def take_jobs(self) -> list[JobKey]:
        """The jobs to wake. Call it only after every list is complete: before, the placement of pods is not known."""
        touched, self._touched = self._touched, set()
        if not touched:
            return []
        return sorted(
            {key for (key, _), node in self._pod_nodes.items() if node in touched and key not in self._finished}
        )
