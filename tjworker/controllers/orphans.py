"""Find orphans in the cluster and delete them. Beat starts the runs. Two runs at once do no harm, as each delete names
the UID that was seen.

Deletions rest on answers of the API server. The projection only shows which jobs live, so that their objects are no
orphans. Lists carry a label selector and come in pages. Objects that depend on an unreadable object are kept. A kind
that is not installed is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import structlog

from tjworker.api import kinds
from tjworker.api.resources import BATCH_JOBS, NODES, REPLICASETS
from tjworker.api.status import END_PHASES
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import Conflict, GroupResource, JobKey, JobName, OperatorError, Terminal, Uid
from tjworker.clock import ClusterClock
from tjworker.controllers.isolation import Isolation
from tjworker.execution.stragglers import Stragglers
from tjworker.kube.client import KubeClient
from tjworker.kube.decode import loads
from tjworker.kube.errors import NOT_INSTALLED
from tjworker.reconcile.children import collected
from tjworker.reconcile.orphans import (
    EARLIER_SELECTORS,
    SELECTOR,
    Candidate,
    Orphan,
    OrphanScan,
    WorkloadName,
    WorkloadOf,
    candidate,
    find_orphans,
)
from tjworker.reconcile.policies.clean import cleaning_after
from tjworker.reconcile.rules import keeps_all
from tjworker.scope import Selection
from tjworker.settings import Settings, turn_seconds
from tjworker.store.port import Store

log = structlog.get_logger(__name__)
NAME = "collect-orphans"


class OrphanCollector:
    """One per process. Remembers only which errors it has logged and which deletions have failed."""

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
        """The result of the run, as Flower shows it. Raises Transient when Redis or the API server is away."""
        self.failed = 0
        if not self._store.maintenance.once(NAME, turn_seconds(self._settings.collect_orphans_seconds)):
            return "another beat was first"
        self._clock.see_redis(self._store.maintenance.time())
        deleted, self.failed = self.collect()
        return f"{deleted} deleted{f', {self.failed} failed' if self.failed else ''}"

    def collect(self) -> tuple[int, int]:
        """(orphans deleted, objects that could not be read or deleted)."""
        self._isolation.begin()
        orphans = self._decide(*self._observe())
        return self._apply(orphans), self._isolation.failed

    # -- observe -----------------------------------------------------------------------------------
    def _observe(self) -> tuple[list[Candidate], OrphanScan]:
        candidates, scan = list[Candidate](), OrphanScan()
        for resource in collected(self._settings.gang_scheduler):
            for where in self._settings.scope.selections():
                with self._isolation.item("list", f"{resource} in {where.namespace or 'all namespaces'}"):
                    candidates += self._list_candidates(resource, where)
        # Owners after candidates: a job that was created in between is found, and its new objects are no orphans.
        self._observe_owners(candidates, scan)
        # A workload among the candidates is the operator's own. Each other workload, foreign or gone, costs one GET.
        ours = {c.uid for c in candidates if c.resource in (REPLICASETS, BATCH_JOBS) and c.owner is not None}
        workloads = {c.workload for c in candidates if c.workload is not None}
        for workload in sorted(workloads, key=lambda k: (k.resource, k.namespace, k.name, k.uid)):
            with self._isolation.item("read", f"{workload.resource} {workload.namespace}/{workload.name}"):
                scan.workloads[workload] = "ours" if workload.uid in ours else self._read_workload(workload)
        with self._isolation.item("list", "nodes"):
            scan.nodes = self._read_node_names()
        return candidates, scan

    def _list_candidates(self, resource: GroupResource, where: Selection) -> list[Candidate]:
        candidates: list[Candidate] = []
        try:
            for selector in (SELECTOR, *(EARLIER_SELECTORS if self._settings.collect_earlier_orphans else ())):
                for obj in self._list_objects(resource, where, selector):
                    with self._isolation.item("read", f"{resource} {_name_of(obj)}"):
                        if (read := candidate(resource, obj)) is not None:
                            candidates.append(read)
        except Conflict:
            # The list expired between two pages (410). The next run sees the rest.
            pass
        return candidates

    def _observe_owners(self, candidates: Iterable[Candidate], scan: OrphanScan) -> None:
        """Read the owner of each candidate: from the projection if it lives, else with one GET per job."""
        uids: dict[JobName, set[Uid]] = {}
        for c in candidates:
            if c.owner is not None:
                uids.setdefault(c.owner, set()).update([] if c.earlier else [Uid(c.owner_uid)])
        alive = self._store.projection.unfinished() if uids else {}
        for name in sorted(uids, key=lambda n: n.key):
            with self._isolation.item("read", name.key):
                uid = _live_uid(name, alive)
                # The projection suffices for a job that lives with the UID that its objects name: if it is late, an
                # orphan stays until a later run. Everything else may lead to deletions, so the API server is asked.
                if uid is not None and uids[name] <= {uid}:
                    scan.owners[name] = uid
                else:
                    self._observe_owner(scan, name)

    def _observe_owner(self, scan: OrphanScan, name: JobName) -> None:
        """Read the job's present UID, and which pods its end deletes if it has ended."""
        raw = self._kube.get(name.resource, name.namespace, name.name)
        job = None if raw is None else kinds.parse(name.resource, raw)
        # A refused job may have begun although its status still says that it was refused: the pods come first.
        if job is not None and job.status.ended and not job.status.refused:
            scan.ended[name] = cleaning_after(job, self._settings.autoclean)
            if keeps_all(job, self._settings.autoclean):
                scan.keeping.add(name)
            if (until := from_rfc3339(job.status.tensorboard_until)) is not None:
                scan.boards[name] = until
        scan.owners[name] = None if raw is None else Uid(raw["metadata"]["uid"])

    def _read_workload(self, name: WorkloadName) -> WorkloadOf:
        live = self._kube.get(name.resource, name.namespace, name.name)
        return "gone" if live is None or live["metadata"]["uid"] != name.uid else "foreign"

    def _read_node_names(self) -> frozenset[str] | None:
        """The names of all nodes; None if the operator may not list them or the list is incomplete. A node that is
        missing in an incomplete list is not gone."""
        try:
            return frozenset(n["metadata"]["name"] for n in self._list_objects(NODES, Selection(), ""))
        except (Terminal, Conflict):
            return None

    def _list_objects(self, resource: GroupResource, where: Selection, selector: str) -> Iterator[dict[str, Any]]:
        """The objects, page by page. Raises Conflict if the list expires between two pages."""
        try:
            yield from self._kube.list_all(
                resource,
                where.namespace,
                label_selector=selector,
                field_selector=where.fields,
                page_size=self._settings.list_page_size,
            )
        except OperatorError as error:
            # A kind that is not installed has no objects.
            if error.reason != NOT_INSTALLED:
                raise

    # -- decide ------------------------------------------------------------------------------------
    def _decide(self, candidates: Iterable[Candidate], scan: OrphanScan) -> list[Orphan]:
        orphans: list[Orphan] = []
        now = self._clock()
        for c in candidates:
            with self._isolation.item("judge", f"{c.resource} {c.namespace}/{c.name}"):
                orphans += find_orphans([c], scan, now)
        return sorted(orphans, key=lambda o: (o.namespace, o.delete.resource, o.delete.name))

    # -- apply -------------------------------------------------------------------------------------
    def _apply(self, orphans: Iterable[Orphan]) -> int:
        """Delete the orphans. Returns how many were deleted."""
        deleted = 0
        for orphan in self._stragglers.put_failed_last(orphans, lambda orphan: orphan.delete.uid):
            gone = orphan.delete
            # Before the request: if the deletion hangs until the task's time limit, this orphan comes last next time.
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
    """The UID of a job that has not ended, from its projected record; None if the record shows no such job."""
    if name.key not in alive:
        return None
    record = loads(alive[name.key][1])
    meta, status = record.get("metadata") or {}, kinds.KNOWN_KINDS[name.resource].own_status(record.get("status"))
    return Uid(meta["uid"]) if meta.get("uid") and status.get("phase") not in END_PHASES else None


def _name_of(obj: dict[str, Any]) -> str:
    meta = obj.get("metadata") or {}
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}"
