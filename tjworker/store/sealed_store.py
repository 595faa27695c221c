"""The Store with a seal on each record, over Redis and over its twin in memory.

Callers see unsealed records. A record with a wrong seal counts as absent; it is logged and counted, and the watcher is
asked to list everything again, at most once a minute. The rest of Redis (queue, leases, versions) has no seal:
docs/redis.md says what an attacker gains by writing it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import structlog

from tjworker.base import GroupResource, JobKey, Transient, printable
from tjworker.store.maintenance import Maintenance
from tjworker.store.port import Store
from tjworker.store.projection import Change, Checkpoint, ClusterView, Projection, RecordPlace, View
from tjworker.store.seal import Seal
from tjworker.store.work_queue import Taken, WorkQueue

log = structlog.get_logger(__name__)

ASK_SECONDS = 60.0
"""How often the watcher is asked to list everything, at most."""
LOGGED = 10
"""How many records with a wrong seal are logged within ASK_SECONDS. Further ones are only counted."""


class SealedProjection:
    def __init__(
        self,
        inner: Projection,
        seal: Seal,
        once: Callable[[str, float], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`once`: `Maintenance.once`."""
        self._inner = inner
        self._seal = seal
        self._once = once
        self._monotonic = monotonic
        self._logged: tuple[float, int] = (-ASK_SECONDS, 0)
        """Since when (monotonic seconds), and how many records."""
        self.refused = 0
        """Records with a wrong seal that this process has read."""

    # -- written by the watcher --------------------------------------------------------------------
    def lead(self, token: int, form: str = "", *, outright: bool = False) -> None:
        # Read before `lead`, which drops the form of another version. An empty Redis has no form, and nothing to drop.
        before = self._inner.checkpoint()
        self._inner.lead(token, form and self._form_with_key(form), outright=outright)
        if before != Checkpoint() and before.form.partition(":")[0] not in self._seal.names:
            # No worker could open these records, and each worker would ask for a new list because of each record.
            log.warning(
                "the projection in Redis cannot be opened: it is dropped, and everything is listed again from the API"
                " server; running pods stay",
                found=_describe_form(before.form),
                this_version=self._seal.name,
            )
            self._inner.reset(token)

    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        return self._inner.apply(token, [self._seal_change(change) for change in changes], progress=progress)

    def free(self, token: int, changes: Sequence[Change]) -> list[JobKey]:
        return self._inner.free(token, [self._seal_change(change) for change in changes])

    def apply_nodes(self, token: int, nodes: Mapping[str, bytes | None]) -> None:
        self._inner.apply_nodes(token, self._sealed_each("node", nodes))

    def apply_node_requests(self, token: int, requests: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        self._inner.apply_node_requests(token, self._sealed_each("requests", requests), whole=whole)

    def mark_children(self, token: int) -> None:
        self._inner.mark_children(token)

    def mark_synced(self, token: int, cluster: str = "", form: str = "") -> None:
        self._inner.mark_synced(token, cluster, self._form_with_key(form))

    def reset(self, token: int) -> None:
        self._inner.reset(token)

    def _form_with_key(self, form: str) -> str:
        # With the name of the key: a watcher with another key finds another form, and lists everything.
        return f"{self._seal.name}:{form}"

    def _seal_change(self, change: Change) -> Change:
        if change.record is None:
            return change
        return replace(change, record=self._seal.seal(change.record, "job", change.key, _field_of(change)))

    def _sealed_each(self, what: str, records: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
        return {
            name: None if record is None else self._seal.seal(record, what, name) for name, record in records.items()
        }

    # -- read by the watcher -----------------------------------------------------------------------
    def checkpoint(self) -> Checkpoint:
        found = self._inner.checkpoint()
        name, _, form = found.form.partition(":")
        return replace(found, form=form if name == self._seal.name else "")

    def known_keys(self) -> Iterable[JobKey]:
        return self._inner.known_keys()

    def known_children(self, keys: Sequence[JobKey], resource: GroupResource) -> Sequence[tuple[JobKey, str]]:
        return self._inner.known_children(keys, resource)

    def known_nodes(self) -> Iterable[str]:
        return self._inner.known_nodes()

    # -- read by workers ---------------------------------------------------------------------------
    def view(self, key: JobKey, node_names: Sequence[str] = ()) -> View:
        return self.open_view(key, self._inner.view(key, node_names))

    def open_view(self, key: JobKey, view: View) -> View:
        refused: list[RecordPlace] = []
        job = None if view.job is None else self._open_record(view.job, refused, RecordPlace(key, "job"))
        children = {
            resource: self._open_each(records, refused, key, resource) for resource, records in view.children.items()
        }
        nodes = self._open_named("node", view.nodes, refused)
        if not refused:
            return replace(view, job=job, children=children, nodes=nodes)
        self.distrust(refused)
        # Without these records the rest would look like a complete view.
        return replace(view, job=None, children={}, nodes={}, synced=False)

    def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]:
        refused: list[RecordPlace] = []
        found = self._open_named("node", self._inner.nodes(names), refused)
        self.distrust(refused)
        return found

    def cluster(self) -> ClusterView:
        view, refused = self._inner.cluster(), list[RecordPlace]()
        nodes = self._open_named("node", view.nodes, refused)
        requests = self._open_named("requests", view.node_requests, refused)
        self.distrust(refused)
        # Without a refused node, or with its requests missing, the cluster would seem to have other room than it
        # has. The autoscaler then moves nothing.
        return ClusterView(
            nodes, requests, synced=view.synced and not refused, nodes_whole=view.nodes_whole and not refused
        )

    def unfinished(self) -> Mapping[JobKey, tuple[int, bytes]]:
        found: dict[JobKey, tuple[int, bytes]] = {}
        refused: list[RecordPlace] = []
        # The other jobs are served all the same: a single forged record must not stop the full resync.
        for key, (rv, sealed) in self._inner.unfinished().items():
            record = self._open_record(sealed, refused, RecordPlace(key, "job"))
            if record is not None:
                found[key] = (rv, record)
        self.distrust(refused)
        return found

    def children(
        self, keys: Sequence[JobKey], resources: Sequence[GroupResource]
    ) -> Mapping[JobKey, Mapping[GroupResource, Mapping[str, bytes]]]:
        refused: list[RecordPlace] = []
        found = {
            key: {resource: self._open_each(records, refused, key, resource) for resource, records in of_job.items()}
            for key, of_job in self._inner.children(keys, resources).items()
        }
        self.distrust(refused)
        return found

    def _open_record(self, sealed: bytes, refused: list[RecordPlace], entry: RecordPlace) -> bytes | None:
        # The first word keeps the places of nodes and of jobs apart, so that no record of a job can be moved to a node.
        place = ("job", entry.key, entry.field) if entry.key else (entry.of, entry.field)
        record = self._seal.open(sealed, *place)
        if record is None:
            refused.append(entry)
        return record

    def _open_each(
        self, records: Mapping[str, bytes], refused: list[RecordPlace], key: JobKey, resource: GroupResource
    ) -> dict[str, bytes]:
        opened = (
            (name, self._open_record(sealed, refused, RecordPlace(key, f"{resource}/{name}")))
            for name, sealed in records.items()
        )
        return {name: record for name, record in opened if record is not None}

    def _open_named(self, of: str, records: Mapping[str, bytes], refused: list[RecordPlace]) -> dict[str, bytes]:
        opened = (
            (n, self._open_record(sealed, refused, RecordPlace(JobKey(""), n, of))) for n, sealed in records.items()
        )
        return {name: record for name, record in opened if record is not None}

    # -- what cannot be trusted --------------------------------------------------------------------
    def distrust(self, entries: Sequence[RecordPlace]) -> None:
        """Log these records, delete them, and make the watcher list everything again."""
        if not entries:
            return
        self.refused += len(entries)
        self._log_refused(entries)
        try:
            # Once for all workers: a list costs the API server a millisecond per object, and an attacker could ask for
            # one with each forged record.
            if self._once("relist", ASK_SECONDS):
                self._inner.distrust(entries)
        except Transient as error:
            # The record stays, so the next read of it asks again.
            log.warning("cannot ask the watcher to list everything again", error=error.message)

    def _log_refused(self, entries: Sequence[RecordPlace]) -> None:
        since, logged = self._logged
        if self._monotonic() - since >= ASK_SECONDS:
            since, logged = self._monotonic(), 0
        for entry in entries[: max(0, LOGGED - logged)]:
            log.error(
                "a record in Redis cannot be opened and is not used: during an upgrade or rollback the leading watcher"
                " is of another version, and this ends with it; at any other time watcher and workers have different"
                " TJ_RECORD_KEYS, or somebody else writes this Redis: change the keys, or Redis' passwords"
                " (docs/operations.md)",
                key=printable(entry.key or entry.of),
                field=printable(entry.field),
                refused_so_far=self.refused,
            )
        self._logged = since, logged + len(entries)


class SealedWorkQueue:
    """The work queue, with unsealed views."""

    def __init__(self, inner: WorkQueue, projection: SealedProjection) -> None:
        self._inner = inner
        self._projection = projection

    def acquire_views(self, key: JobKey, owner: str, ttl_seconds: float, most: int) -> Taken:
        taken = self._inner.acquire_views(key, owner, ttl_seconds, most)
        return replace(
            taken, views=[(claim, self._projection.open_view(claim.key, view)) for claim, view in taken.views]
        )

    # No other method of the queue returns records.
    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@dataclass(frozen=True, slots=True)
class SealedStore:
    projection: SealedProjection
    queue: WorkQueue
    maintenance: Maintenance


def sealed(store: Store, seal: Seal) -> SealedStore:
    projection = SealedProjection(store.projection, seal, store.maintenance.once)
    queue = cast(WorkQueue, SealedWorkQueue(store.queue, projection))
    return SealedStore(projection, queue, store.maintenance)


def _describe_form(form: str) -> str:
    """For the log: the likely writer of a projection that no key of this process opens. `form`: the checkpoint's."""
    name, sealed, _ = form.partition(":")
    if not form:
        return "no form: a watcher of another version wrote it, or none has listed everything"
    if not sealed:
        return "records without a seal, of a version before TJ_RECORD_KEYS"
    return f"records of form {printable(name)}, of a version with another form or of other TJ_RECORD_KEYS"


def _field_of(change: Change) -> str:
    return "job" if change.is_job else f"{change.resource}/{change.name}"
