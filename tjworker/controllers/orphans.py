"""Find orphans in the cluster and delete them. Run by beat, safe to run twice: a delete names the UID that was seen.

Reads the API server: what is deleted for good must be true. The projection only says of which jobs nothing can be an
orphan, as they live. Lists carry a label selector and come in pages. What cannot be read is unknown, and of what is
unknown nothing is deleted. A kind that is not installed is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from tjworker.api import kinds
from tjworker.api.resources import BATCH_JOBS, NODES, REPLICASETS
from tjworker.api.status import END_PHASES
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import Conflict, GroupResource, JobKey, JobName, OperatorError, Terminal, Uid
from tjworker.clock import ClusterClock
from tjworker.controllers.isolation import Isolation
from tjworker.kube.client import KubeClient
from tjworker.kube.decode import loads
from tjworker.kube.errors import NOT_INSTALLED
from tjworker.reconcile.children import collected
from tjworker.reconcile.orphans import (
    EARLIER_SELECTORS,
    SELECTOR,
    Candidate,
    Orphan,
    WorkloadName,
    WorkloadOf,
    candidate,
    find_orphans,
)
from tjworker.reconcile.policies.clean import Cleaning, cleaning_after
from tjworker.reconcile.rules import keeps_all
from tjworker.scope import Selection
from tjworker.settings import Settings, turn_seconds
from tjworker.store.port import Store
from tjworker.stragglers import Stragglers

log = structlog.get_logger(__name__)
NAME = "collect-orphans"


@dataclass(slots=True)
class Observation:
    """As `find_orphans` takes it."""

    candidates: list[Candidate] = field(default_factory=list)
    owners: dict[JobName, Uid | None] = field(default_factory=dict)
    ended: dict[JobName, Cleaning] = field(default_factory=dict)
    boards: dict[JobName, float] = field(default_factory=dict)
    keeping: set[JobName] = field(default_factory=set)
    workloads: dict[WorkloadName, WorkloadOf] = field(default_factory=dict)
    nodes: frozenset[str] | None = None


class OrphanCollector:
    """One a process. Remembers nothing but which errors it has logged."""

    def __init__(self, store: Store, kube: KubeClient, settings: Settings, *, clock: ClusterClock) -> None:
        self._store = store
        self._kube = kube
        self._settings = settings
        self._clock = clock
        self._isolation = Isolation(log)
        self._stragglers = Stragglers()
        self.failed = 0
        """Objects of the last run that could not be read or deleted."""

    def run(self) -> str:
        """What the run came to, in words. Raises Transient when Redis or the API server is away."""
        self.failed = 0
        if not self._store.queue.once(NAME, turn_seconds(self._settings.collect_orphans_seconds)):
            return "another beat was first"
        self._clock.see_redis(self._store.queue.time())
        deleted, self.failed = self.collect()
        return f"{deleted} deleted{f', {self.failed} failed' if self.failed else ''}"

    def collect(self) -> tuple[int, int]:
        """How many orphans were deleted, and how many objects could not be read or deleted."""
        self._isolation.begin()
        found = self._observe()
        orphans = self._decide(found)
        return self._apply(orphans), self._isolation.failed

    # -- observe -----------------------------------------------------------------------------------
    def _observe(self) -> Observation:
        found = Observation()
        for resource in collected(self._settings.gang_scheduler):
            for where in self._settings.scope.selections():
                with self._isolation.item("list", f"{resource} in {where.namespace or 'all namespaces'}"):
                    found.candidates += self._candidates(resource, where)
        self._observe_owners(found)
        # Candidates need no request; the others (foreign, or gone) one GET each.
        ours = {c.uid for c in found.candidates if c.resource in (REPLICASETS, BATCH_JOBS) and c.owner is not None}
        workloads = {c.workload for c in found.candidates if c.workload is not None}
        for workload in sorted(workloads, key=lambda k: (k.resource, k.namespace, k.name, k.uid)):
            with self._isolation.item("read", f"{workload.resource} {workload.namespace}/{workload.name}"):
                found.workloads[workload] = "ours" if workload.uid in ours else self._workload(workload)
        with self._isolation.item("list", "nodes"):
            found.nodes = self._nodes()
        return found

    def _candidates(self, resource: GroupResource, where: Selection) -> list[Candidate]:
        found: list[Candidate] = []
        try:
            for selector in (SELECTOR, *(EARLIER_SELECTORS if self._settings.collect_earlier_orphans else ())):
                for obj in self._list(resource, where, selector):
                    with self._isolation.item("read", f"{resource} {_name(obj)}"):
                        if (one := candidate(resource, obj)) is not None:
                            found.append(one)
        except Conflict:
            pass  # the list expired between its pages (410): what it has not shown is for the next run
        return found

    def _observe_owners(self, found: Observation) -> None:
        """One GET for each job of which something may be an orphan. That a job lives the projection may say, of the UID
        that its objects name: should it be late, an orphan stays until a later run. That a job is gone, is another one
        or has ended is for the API server to say, as things are deleted for it."""
        uids: dict[JobName, set[Uid]] = {}
        for c in found.candidates:
            if c.owner is not None:
                uids.setdefault(c.owner, set()).update([] if c.earlier else [Uid(c.owner_uid)])
        alive = self._store.projection.unfinished() if uids else {}
        for name in sorted(uids, key=lambda n: n.key):
            with self._isolation.item("read", name.key):
                uid = _live_uid(name, alive)
                if uid is not None and uids[name] <= {uid}:
                    found.owners[name] = uid
                else:
                    self._observe_owner(found, name)

    def _observe_owner(self, found: Observation, name: JobName) -> None:
        """The UID that the job has now, and which pods its end deletes if it has ended."""
        raw = self._kube.get(name.resource, name.namespace, name.name)
        job = None if raw is None else kinds.parse(name.resource, raw)
        # A refused job may begin while its status, which follows the pods, still says that it was refused.
        if job is not None and job.status.ended and not job.status.refused:
            found.ended[name] = cleaning_after(job, self._settings.autoclean)
            if keeps_all(job, self._settings.autoclean):
                found.keeping.add(name)
            if (until := from_rfc3339(job.status.tensorboard_until)) is not None:
                found.boards[name] = until
        found.owners[name] = None if raw is None else Uid(raw["metadata"]["uid"])

    def _workload(self, name: WorkloadName) -> WorkloadOf:
        live = self._kube.get(name.resource, name.namespace, name.name)
        return "gone" if live is None or live["metadata"]["uid"] != name.uid else "foreign"

    def _nodes(self) -> frozenset[str] | None:
        """None where they may not be read, or not all have been: a node that a list has not come to is not gone."""
        try:
            return frozenset(n["metadata"]["name"] for n in self._list(NODES, Selection(), ""))
        except (Terminal, Conflict):
            return None

    def _list(self, resource: GroupResource, where: Selection, selector: str) -> Iterator[dict[str, Any]]:
        """Page by page. Raises Conflict when the list expires between them."""
        token = ""
        while True:
            try:
                page = self._kube.list_page(
                    resource,
                    where.namespace,
                    label_selector=selector,
                    field_selector=where.fields,
                    limit=self._settings.list_page_size,
                    token=token,
                )
            except OperatorError as error:
                if error.reason == NOT_INSTALLED:
                    return
                raise
            yield from page.items
            token = page.next_token
            if not token:
                return

    # -- decide ------------------------------------------------------------------------------------
    def _decide(self, found: Observation) -> list[Orphan]:
        orphans: list[Orphan] = []
        now = self._clock()
        for one in found.candidates:
            with self._isolation.item("judge", f"{one.resource} {one.namespace}/{one.name}"):
                orphans += find_orphans(
                    [one], found.owners, found.nodes, now, found.workloads, found.ended, found.boards, found.keeping
                )
        return sorted(orphans, key=lambda o: (o.namespace, o.delete.resource, o.delete.name))

    # -- apply -------------------------------------------------------------------------------------
    def _apply(self, orphans: Iterable[Orphan]) -> int:
        """How many were deleted."""
        deleted = 0
        for orphan in self._stragglers.last(orphans, lambda orphan: orphan.delete.uid):
            gone = orphan.delete
            self._stragglers.note(gone.uid, failed=True)
            where = {"resource": gone.resource, "namespace": orphan.namespace, "name": gone.name}
            with self._isolation.item("delete", f"{gone.resource} {orphan.namespace}/{gone.name}"):
                try:
                    self._kube.delete(
                        gone.resource, orphan.namespace, gone.name, uid=gone.uid, grace_seconds=gone.grace_seconds
                    )
                except Conflict as error:
                    log.info("an orphan has changed; the next run looks again", **where, error=error.message)
                    continue
                self._stragglers.note(gone.uid, failed=False)
                deleted += 1
                log.info("deleted an orphan", **where, why=gone.why)
        return deleted


def _live_uid(name: JobName, alive: Mapping[JobKey, tuple[int, bytes]]) -> Uid | None:
    """Of a job that has not ended, as projected; None when its record does not say so."""
    if name.key not in alive:
        return None
    record = loads(alive[name.key][1])
    meta, status = record.get("metadata") or {}, kinds.KNOWN_KINDS[name.resource].own_status(record.get("status"))
    return Uid(meta["uid"]) if meta.get("uid") and status.get("phase") not in END_PHASES else None


def _name(obj: dict[str, Any]) -> str:
    meta = obj.get("metadata") or {}
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"
