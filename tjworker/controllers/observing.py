"""Turns the views of keys into what passes decide on: parsed jobs with the records of their children and nodes.

Decides nothing about jobs. A view suffices for most jobs. What only the API server knows, such as the spec of a
suspended job, is read in the pass of that job alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import orjson
import structlog

from tjworker.api import kinds
from tjworker.api.kinds.base import LEFT_OUT, UNREADABLE, readable
from tjworker.api.model import FieldError, InvalidJob, Reference, TrainingJob
from tjworker.api.observed import NodeRecord, Observed
from tjworker.api.records_json import decode, decode_view
from tjworker.api.resources import NODES
from tjworker.api.status import SUSPENDED
from tjworker.base import MOST_KEPT_OF_A_JOB, GroupResource, JobKey, JobName, Json, Terminal, parse_key
from tjworker.controllers.pass_end import AwaitWatch, Done, ReleasedEnd, RetryAfter
from tjworker.controllers.priorities import PriorityClasses
from tjworker.controllers.references import References
from tjworker.kube.client import KubeClient
from tjworker.kube.errors import NO_PERMISSION
from tjworker.kube.resources import RESOURCES
from tjworker.reconcile import take_up
from tjworker.reconcile.plan import Plan
from tjworker.store.port import Store
from tjworker.store.projection import View

log = structlog.get_logger(__name__)

UNSYNCED_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class JobObservation:
    """A job and its children: all that a decision needs besides time and rules."""

    job: TrainingJob | InvalidJob
    observed: Observed

    @property
    def nodes(self) -> set[str]:
        """Names of the nodes that hold pods of the job; none once it has ended."""
        return set() if self.job.status.ended else {pod.node for pod in self.observed.pods if pod.node}

    @property
    def is_new(self) -> bool:
        """Nothing has been made for the job yet, and nothing of it was lost."""
        status = self.job.status
        children = self.observed.pods or self.observed.replicasets or self.observed.jobs
        return not (children or status.start_running_time or status.restarts or status.suspended_seconds)


class _NeedsApi(Exception):
    """The view does not suffice: the API server must be asked."""


class _Sources(Protocol):
    """What an observation needs besides the view."""

    def read_job(self, name: JobName) -> Json | None: ...
    def find_priority_class(self, name: str) -> str: ...
    def find_reference(self, job: InvalidJob, seen: Mapping[GroupResource, int]) -> Json | None: ...


class _ViewAlone:
    """Asks the API server for nothing."""

    def __init__(self, references: References) -> None:
        self._references = references

    def read_job(self, name: JobName) -> Json | None:
        raise _NeedsApi

    def find_priority_class(self, name: str) -> str:
        raise _NeedsApi

    def find_reference(self, job: InvalidJob, seen: Mapping[GroupResource, int]) -> Json | None:
        known = self._references.known(job, seen)
        if known is None:
            raise _NeedsApi
        return known


class _Api:
    def __init__(self, kube: KubeClient, priorities: PriorityClasses, references: References) -> None:
        self._kube = kube
        self._references = references
        self.find_priority_class = priorities.find

    def read_job(self, name: JobName) -> Json | None:
        return self._kube.get(name.resource, name.namespace, name.name)

    def find_reference(self, job: InvalidJob, seen: Mapping[GroupResource, int]) -> Json | None:
        return self._references.known(job, seen) or self._references.find(job)


class Observer:
    """One per process."""

    def __init__(
        self, store: Store, kube: KubeClient, priorities: PriorityClasses, monotonic: Callable[[], float]
    ) -> None:
        self._projection = store.projection
        self._queue = store.queue
        references = References(kube, monotonic)
        self._view_alone = _ViewAlone(references)
        self._api = _Api(kube, priorities, references)

    def observe_view(self, key: JobKey, view: View) -> JobObservation | ReleasedEnd | None:
        """The job without its nodes; the end of the pass if there is nothing to decide on; None if the API server must
        be asked, by `observe`."""
        try:
            return self._observe(key, view, self._view_alone)
        except _NeedsApi:
            return None

    def observe(self, key: JobKey, view: View) -> JobObservation | ReleasedEnd:
        """The job without its nodes, or the end of the pass if there is nothing to decide on. Asks the API server for
        what the view lacks."""
        return self._observe(key, view, self._api)

    def _observe(self, key: JobKey, view: View, sources: _Sources) -> JobObservation | ReleasedEnd:
        if view.fault is not None:
            raise view.fault
        if not view.synced:
            # The watcher queues every unfinished job once the projection is whole again.
            return RetryAfter("the projection is not synced yet", UNSYNCED_RETRY_SECONDS)
        if view.stale:
            return AwaitWatch("waits until the watch shows the last write of this job", own_write=True)
        raw: Json | None
        raw, observed = decode_view(view.job, view.children, seen=view.seen)
        observed = replace(observed, untouched=not view.min_observed)
        name = parse_key(key)
        # Redis keeps no spec of a finished job, which only its TTL brings here, of a suspended job, or of a job with a
        # very large spec.
        if raw is not None and (raw.get("finished") or LEFT_OUT in raw):
            kept, raw = raw, sources.read_job(name)
            size = kept.get(LEFT_OUT, 0)
            observed = replace(observed, left_out_bytes=size if size > MOST_KEPT_OF_A_JOB else 0)
            if raw is not None and UNREADABLE in kept:
                raw = {**raw, "spec": readable(raw.get("spec")) or {}, UNREADABLE: kept[UNREADABLE]}
        if raw is None:
            # Kubernetes' garbage collector deletes its objects; the orphan collector finds what that leaves.
            return Done("the job is gone")
        # A key that a version with more kinds, or a stranger, has queued.
        if name.resource not in kinds.KNOWN_KINDS:
            raise Terminal(f"{name.resource} is no job kind of this operator")
        job = take_up(_parse(name.resource, raw, sources, view.seen), observed)
        # An ended job makes no pods, so its class is not looked up.
        if isinstance(job, TrainingJob) and job.priority and not job.status.ended:
            job = replace(job, priority_class=sources.find_priority_class(job.priority))
        return JobObservation(job, observed)

    def is_resting(self, key: JobKey, view: View) -> bool:
        """True if a pass over this version of the job had nothing to do, as `note_rest` noted. An edit, a deletion or
        an annotation makes another version."""
        version = _resting_version(key, view)
        return version is not None and self._queue.rests_at(key) == version

    def note_rest(self, key: JobKey, view: View, found: JobObservation, plan: Plan) -> None:
        """Note that a pass over this version of the job had nothing to do: the job is suspended, or the API server has
        refused its first pods, and it has no objects. So the next pass needs no request for its spec."""
        version = _resting_version(key, view)
        status = found.job.status
        # Not for a job whose spec was refused: the reason may lie outside the spec, for instance in the settings. Nor
        # for a refused job that names an object: its owner may mend that one instead of the job.
        rests = status.phase == SUSPENDED or (status.refused == "Create" and not status.snapshot)
        unchanged = version == str(found.job.resource_version)
        if version and unchanged and rests and plan.empty and plan.requeue_after_seconds is None:
            self._queue.note_rest(key, version)

    def with_nodes(self, observations: Iterable[JobObservation]) -> list[JobObservation]:
        """The observations with the nodes of their pods, read in one round trip."""
        jobs = list(observations)
        names = sorted(set().union(*(job.nodes for job in jobs)))
        # No pod has a node yet, as for every new job: saves the round trip.
        if not names:
            return jobs
        nodes = decode_nodes(self._projection.nodes(names))
        return [
            replace(job, observed=replace(job.observed, nodes={name: nodes[name] for name in own if name in nodes}))
            if (own := sorted(job.nodes))
            else job
            for job in jobs
        ]

    def read_every_node(self) -> dict[str, NodeRecord]:
        """Every node of the projection; empty while the list of nodes is incomplete."""
        cluster = self._projection.cluster()
        return decode_nodes(cluster.nodes) if cluster.nodes_whole else {}


def _parse(
    resource: GroupResource, raw: Json, sources: _Sources, seen: Mapping[GroupResource, int]
) -> TrainingJob | InvalidJob:
    """The job with the object that its spec names, such as a runtime; an InvalidJob if that object is missing."""
    job = kinds.parse(resource, raw)
    # A refused job reads the object again, because its owner may have mended it. An ended job needs it no more.
    over = job.status.ended and not job.status.refused
    if isinstance(job, TrainingJob) or job.missing is None or over:
        return job
    try:
        reference = sources.find_reference(job, seen)
    except Terminal as error:
        if error.status not in NO_PERMISSION:
            raise
        log.warning("cannot read an object that a job names", job=job.name.key, error=error.message)
        return _with_missing_permission(job, job.missing, error)
    if reference is None:
        return replace(job, errors=(job.missing.absent,))
    return kinds.parse(resource, kinds.with_companion(resource, raw, reference))


def _with_missing_permission(job: InvalidJob, missing: Reference, error: Terminal) -> InvalidJob:
    """The job as one that waits until the operator may read the object."""
    resource = RESOURCES[missing.resource]
    scope = "a Role of the job's namespace" if resource.namespaced else "a ClusterRole"
    message = (
        f"the operator may not read {missing}: {error.message}; give its worker the verb list on {missing.resource} in"
        f" {scope}, and the job starts"
    )
    return replace(job, errors=(FieldError(missing.path, message),), missing=replace(missing, forbidden=True))


def _resting_version(key: JobKey, view: View) -> str | None:
    """The resourceVersion of the job if the view shows it suspended or refused, without spec and without objects; else
    None."""
    kind = kinds.KNOWN_KINDS.get(parse_key(key).resource)
    # Children must be gone: a job that has objects left is never at rest.
    if kind is None or view.job is None or view.fault or not view.synced or view.stale or any(view.children.values()):
        return None
    raw = orjson.loads(view.job)
    if LEFT_OUT not in raw or kind.own_status(raw.get("status")).get("phase") not in (SUSPENDED, "Failed"):
        return None
    return str(raw["metadata"]["resourceVersion"])


def decode_nodes(nodes: Mapping[str, bytes]) -> dict[str, NodeRecord]:
    records = {name: decode(NODES, data) for name, data in nodes.items()}
    return {name: record for name, record in records.items() if isinstance(record, NodeRecord)}
