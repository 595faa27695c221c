"""The operator's own loops over hostile objects, in process: reflectors' handlers, the projection writer, reconcile,
the autoscaler and the orphan collector. No API server stands before them, so that nothing is refused.

`Loops.take` gives them objects as a list or as watch events; `Loops.decide` lets every loop decide on what the
projection then holds. Whatever raises, or skips an object, is a finding.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from tests.hostile.flood import to_bytes
from tests.support.memory_store import MemoryStore
from tjworker.api.kinds import KNOWN_KINDS, parse, written_status
from tjworker.api.model import TrainingJob
from tjworker.api.node_requests import decode_node_requests
from tjworker.api.ownership import own_pods
from tjworker.api.records_json import decode, decode_view
from tjworker.api.resources import NODES
from tjworker.autoscale import JobState, decide
from tjworker.base import GroupResource, JobKey, parse_key
from tjworker.controllers.autoscaler import autoscale_rules
from tjworker.controllers.jobs import reconcile_rules
from tjworker.kube.decode import loads
from tjworker.kube.resources import watched
from tjworker.reconcile import Plan, reconcile
from tjworker.reconcile.children import collected
from tjworker.reconcile.orphans import OrphanScan, candidate, find_orphans
from tjworker.settings import Settings
from watcher.event_queue import EventQueue
from watcher.outage import Outage
from watcher.projection_writer import ProjectionWriter
from watcher.projector import Projector
from watcher.redis_retry import RedisRetry

Json = dict[str, Any]
NOW = 1_767_225_600.0
SETTINGS = Settings(autoscale_policy="fulfillment")


class Loops:
    def __init__(self) -> None:
        self.store = MemoryStore(clock=lambda: NOW)
        self.published: list[JobKey] = []
        self.queue = EventQueue(1 << 30)
        sources = [row.name for row in watched(KNOWN_KINDS)]
        redis = RedisRetry(threading.Event(), lambda: 0.0)
        self.writer = ProjectionWriter(
            self.store, self.published.extend, self.queue, redis=redis, token=1, sources=sources, now=lambda: 0.0
        )
        self.writer.lead()
        self.projectors = {name: Projector(name, self.queue, lambda: "red", Outage(lambda: 0.0)) for name in sources}
        self.version = 1
        self.shown: list[tuple[GroupResource, Json]] = []

    def _whole(self, obj: Json) -> Json:
        """As an API server gives it: with a UID and a version, read from bytes."""
        self.version += 1
        meta = {"uid": f"uid-{self.version}", **obj["metadata"], "resourceVersion": str(self.version)}
        read: Json = loads(to_bytes({**obj, "metadata": meta}))
        return read

    def listed(self, objects: Mapping[GroupResource, Iterable[Json]]) -> None:
        """Every source's list, page by page of ten; then the projection is synced."""
        for name, projector in self.projectors.items():
            whole = [self._whole(obj) for obj in objects.get(name, ())]
            self.shown += [(name, obj) for obj in whole]
            projector.list_begins()
            for start in range(0, len(whole), 10):
                projector.page(whole[start : start + 10], 1_000_000)
                self.write()
            projector.list_ends(1_000_000)
            self.write()
        self.version = 1_000_001

    def event(self, kind: str, resource: GroupResource, obj: Json) -> None:
        whole = self._whole(obj)
        self.shown.append((resource, whole))
        self.projectors[resource].events([(kind, whole)], self.version)

    def write(self) -> None:
        self.writer.step(0)
        while len(self.queue) or self.writer._sweeps:
            self.writer.step(0)

    @property
    def skipped(self) -> dict[str, str]:
        return {name: error for one in self.projectors.values() for name, error in one.skipped.objects.items()}

    # -- decisions ---------------------------------------------------------------------------------

    def plans(self) -> dict[JobKey, Plan]:
        """What each unfinished job's pass decides."""
        rules = reconcile_rules(SETTINGS)
        found = {}
        for key in self.store.projection.unfinished():
            view = self.store.projection.view(key)
            raw, observed = decode_view(view.job, view.children, seen={NODES: 1})
            assert raw is not None
            nodes = self.store.projection.nodes(sorted({p.node for p in observed.pods if p.node}))
            observed = replace(observed, nodes={name: decode(NODES, data) for name, data in nodes.items()})  # type: ignore[misc]
            job = parse(parse_key(key).resource, raw)
            plan = reconcile(job, observed, NOW, rules)
            if plan.status is not None:
                orjson.dumps(written_status(job, plan.status))
            for write in plan.writes:
                orjson.dumps(getattr(write, "body", None))
            found[key] = plan
        return found

    def autoscale(self) -> list[str]:
        """The autoscaler's moves, in words."""
        cluster = self.store.projection.cluster()
        nodes = {name: decode(NODES, data) for name, data in cluster.nodes.items()}
        requests = {name: decode_node_requests(data) for name, data in cluster.node_requests.items()}
        states = []
        for key, (_, record) in self.store.projection.unfinished().items():
            resource = parse_key(key).resource
            job = parse(resource, orjson.loads(record)) if resource in KNOWN_KINDS else None
            if isinstance(job, TrainingJob) and any(role.autoscaled for role in job.roles):
                children = self.store.projection.view(key).children
                states.append(JobState(job, own_pods(job, decode_view(None, children)[1])))
        decision = decide(states, nodes, requests, NOW, autoscale_rules(SETTINGS))  # type: ignore[arg-type]
        return [f"{move.state.job.key} {move.role} {move.to}" for move in decision.moves]

    def collect(self) -> int:
        """How many orphans there are."""
        candidates = [candidate(resource, obj) for resource, obj in self.shown if resource in collected("none")]
        known = [one for one in candidates if one is not None]
        scan = OrphanScan(nodes=frozenset())
        scan.owners.update({one.owner: None for one in known if one.owner is not None})
        return len(find_orphans(known, scan, NOW))
