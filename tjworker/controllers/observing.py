"""What passes decide on, out of the views that came with their keys: parsed jobs, records of children and nodes.

Decides nothing about jobs. Most views need nothing more than the nodes of their pods, which one read of Redis brings
for all of them; what only the API server knows is left to the pass of its own job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
import structlog

from tjworker.api import kinds
from tjworker.api.kinds.base import LEFT_OUT, UNREADABLE, readable
from tjworker.api.model import FieldError, InvalidJob, Reference, TrainingJob
from tjworker.api.observed import NodeRecord, Observed
from tjworker.api.records_json import decode, decode_view
from tjworker.api.resources import NODES
from tjworker.api.status import SUSPENDED
from tjworker.base import MOST_KEPT_OF_A_JOB, GroupResource, JobKey, Terminal, parse_key
from tjworker.controllers.result import Result
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NO_PERMISSION
from tjworker.kube.resources import RESOURCES
from tjworker.priorities import PriorityClasses
from tjworker.reconcile import take_up
from tjworker.reconcile.plan import Plan
from tjworker.references import References
from tjworker.store.port import Store
from tjworker.store.projection import View

log = structlog.get_logger(__name__)

UNSYNCED_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Observation:
    """A job with what belongs to it: all that a decision needs besides time and rules."""

    job: TrainingJob | InvalidJob
    observed: Observed

    @property
    def nodes(self) -> set[str]:
        """Of its pods, while it goes on."""
        return set() if self.job.status.ended else {pod.node for pod in self.observed.pods if pod.node}

    @property
    def has_nothing_yet(self) -> bool:
        """Not even lost anything before: the first time that something is made for it."""
        before = self.job.status
        there = self.observed.pods or self.observed.replicasets or self.observed.jobs
        return not (there or before.start_running_time or before.restarts or before.suspended_seconds)


class Observing:
    """One a process."""

    def __init__(self, store: Store, kube: KubeClient, priorities: PriorityClasses) -> None:
        self._projection = store.projection
        self._queue = store.queue
        self._kube = kube
        self._priorities = priorities
        self._references = References(kube)

    def read(self, key: JobKey, view: View, *, ask: bool = True) -> Observation | Result | None:
        """Without nodes. A Result when there is nothing to decide on; None when the API server must be asked, and
        `ask` is not set."""
        if view.fault is not None:
            raise view.fault
        if not view.synced:
            # The watcher queues every unfinished job once the projection is whole again.
            return Result("the projection is not synced yet", after_seconds=UNSYNCED_RETRY_SECONDS, unfit=True)
        if view.stale:
            return Result("waits until the watch shows the last write of this job", stale=True, behind=True)
        raw, observed = decode_view(view.job, view.children, seen=view.seen)
        observed = replace(observed, untouched=not view.min_observed)
        name = parse_key(key)
        if raw is not None and (raw.get("finished") or LEFT_OUT in raw):
            if not ask:
                return None
            # The projection keeps next to nothing of a finished job, which only a TTL brings here, nor of a suspended
            # one or of one with a very large spec.
            size = raw.get(LEFT_OUT, 0)
            observed = replace(observed, left_out_bytes=size if size > MOST_KEPT_OF_A_JOB else 0)
            kept, raw = raw, self._kube.get(name.resource, name.namespace, name.name)
            if raw is not None and UNREADABLE in kept:
                raw = {**raw, "spec": readable(raw.get("spec")) or {}, UNREADABLE: kept[UNREADABLE]}
        if raw is None:
            return Result("the job is gone")
        if name.resource not in kinds.KNOWN_KINDS:
            raise Terminal(f"{name.resource} is no job kind of this operator")
        parsed = self._parse(name.resource, raw, ask=ask)
        job = None if parsed is None else self._with_priority_class(take_up(parsed, observed), ask=ask)
        return None if job is None else Observation(job, observed)

    def _with_priority_class(self, job: TrainingJob | InvalidJob, *, ask: bool) -> TrainingJob | InvalidJob | None:
        """None when the API server must be asked for it, and `ask` is not set."""
        if isinstance(job, InvalidJob) or not job.priority or job.status.ended:
            return job
        return replace(job, priority_class=self._priorities.find(job.priority)) if ask else None

    def _parse(self, resource: GroupResource, raw: Mapping[str, Any], *, ask: bool) -> TrainingJob | InvalidJob | None:
        """With the object that its spec names. None when the API server must be asked for it, and `ask` is not set."""
        job = kinds.parse(resource, raw)
        # A refused job reads it again: it may be mended. One that has ended needs it no more.
        over = job.status.ended and not job.status.refused
        if isinstance(job, TrainingJob) or job.missing is None or over:
            return job
        try:
            found = self._references.known(job) or (self._references.find(job) if ask else None)
        except Terminal as error:
            if error.status not in NO_PERMISSION:
                raise
            log.warning("cannot read an object that a job names", job=job.name.key, error=error.message)
            return _forbidden(job, job.missing, error)
        if found is None:
            return job if ask else None
        return kinds.parse(resource, kinds.resolved(resource, raw, found))

    def rests(self, key: JobKey, view: View) -> bool:
        """The job is suspended, or the API server has refused its first pods; none of its objects is there, and a pass
        has had nothing to do at this version, which the record names. An edit, a deletion or an annotation makes
        another version."""
        version = _resting_version(key, view)
        return version is not None and self._queue.rests_at(key) == version

    def note_rest(self, key: JobKey, view: View, found: Observation, plan: Plan) -> None:
        """Of a job that Redis keeps without its spec. Not of one whose spec cannot be used: what it was refused for may
        lie outside of it, as the settings do; nor of one that names an object, which may be mended."""
        version = _resting_version(key, view)
        there, status = str(found.job.resource_version), found.job.status
        rests = status.phase == SUSPENDED or (status.refused == "Create" and not status.snapshot)
        if version == there and rests and plan.empty and plan.requeue_after_seconds is None:
            self._queue.note_rest(key, version)

    def with_nodes(self, found: Iterable[Observation]) -> list[Observation]:
        """The same, with the nodes of their pods, in one round trip."""
        found = list(found)
        names = sorted(set().union(*(one.nodes for one in found)))
        if not names:
            return found
        nodes = decoded(self._projection.nodes(names))
        return [
            replace(one, observed=replace(one.observed, nodes={name: nodes[name] for name in own if name in nodes}))
            if (own := sorted(one.nodes))
            else one
            for one in found
        ]

    def every_node(self) -> dict[str, NodeRecord]:
        """Nobody judges by no nodes."""
        cluster = self._projection.cluster()
        return decoded(cluster.nodes) if cluster.nodes_whole else {}


def _forbidden(job: InvalidJob, missing: Reference, error: Terminal) -> InvalidJob:
    """The same job, which waits for a right of the operator's."""
    named = RESOURCES[missing.resource]
    scope = "a Role of the job's namespace" if named.namespaced else "a ClusterRole"
    told = (
        f"the operator may not read {missing}: {error.message}; give its worker the verb list on {missing.resource} in"
        f" {scope}, and the job starts"
    )
    return replace(job, errors=(FieldError(missing.path, told),), missing=replace(missing, forbidden=True))


def _resting_version(key: JobKey, view: View) -> str | None:
    """resourceVersion of a job that the projection shows as suspended or refused, without spec and without objects."""
    kind = kinds.KNOWN_KINDS.get(parse_key(key).resource)
    if kind is None or view.job is None or view.fault or not view.synced or view.stale or any(view.children.values()):
        return None
    raw = orjson.loads(view.job)
    if LEFT_OUT not in raw or kind.own_status(raw.get("status")).get("phase") not in (SUSPENDED, "Failed"):
        return None
    return str(raw["metadata"]["resourceVersion"])


def decoded(nodes: Mapping[str, bytes]) -> dict[str, NodeRecord]:
    records = {name: decode(NODES, data) for name, data in nodes.items()}
    return {name: record for name, record in records.items() if isinstance(record, NodeRecord)}
