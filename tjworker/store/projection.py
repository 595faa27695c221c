"""The projection: what reconcile needs of the cluster. The leading watcher writes it, the workers read it.

Each write is fenced by the writer's token, and is atomic. Every method raises Transient if Redis is away, read-only or
out of memory, and may then be called again. Everything here can be lost: after FLUSHALL the watcher lists everything
again. `redis_projection.py` implements it; `tests/integration/store/` is the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tjworker.base import GroupResource, JobKey, OperatorError


class Lost(Exception):
    """The projection has vanished (FLUSHALL, a new Redis) or is an older one (a restart that lost the last writes). The
    watcher calls `lead` again, lists everything, applies it and marks it synced."""


@dataclass(frozen=True, slots=True)
class Change:
    """One watch event, projected. For a job, `resource` is the resource in its key."""

    key: JobKey
    resource: GroupResource
    name: str
    rv: int
    """resourceVersion of the object; for a deletion that of the DELETED event, or of the list that no longer has the
    object. Compared as an integer, as Kubernetes guarantees since 1.35 (KEP-5504); 0 when none is known."""
    record: bytes | None
    """Compact JSON; None for a deletion. The store does not read it: the other fields have what it compares."""
    finished: bool = False
    """The job has ended and is cleaned up: from now on only its own record is kept, and no event of a child queues
    it."""
    is_job: bool = False
    job_uid: str = ""
    """UID of the job, also for its children; '' if it is unknown, as for a deletion."""
    generation: int = 0
    """`metadata.generation` of a job, which a new spec raises and a status does not."""
    quiet: bool = False
    """Nothing has changed in the job that a pass decides on. The record is written, but the key is not queued."""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The place of one record."""

    key: JobKey
    """'' for a record that belongs to no job."""
    field: str
    """`job` or `<resource>/<name>`; without a key the name of a node."""
    of: str = ""
    """`node` or `requests` for a record without a key."""


@dataclass(frozen=True, slots=True)
class View:
    """One job in the projection, from one consistent read."""

    job: bytes | None
    """None: the projection does not have the job."""
    children: Mapping[GroupResource, Mapping[str, bytes]] = field(default_factory=dict)
    """resource -> name -> record."""
    seen: Mapping[GroupResource, int] = field(default_factory=dict)
    """resource -> newest resourceVersion that the watch has shown, for this job or for the whole resource."""
    min_observed: Mapping[GroupResource, int] = field(default_factory=dict)
    """resource -> minimum observed resourceVersion: the version of the operator's last write for this job. A view that
    has seen less is stale. Replaces client-go's expectations."""
    synced: bool = True
    """False while the children of jobs are being listed (at the start, after FLUSHALL): no pass may decide on it."""
    nodes: Mapping[str, bytes] = field(default_factory=dict)
    """The requested nodes that the projection has."""
    fault: OperatorError | None = None
    """Why this view could not be read, if others of the same call could. The other fields are empty then."""

    @property
    def stale(self) -> bool:
        return any(self.seen.get(resource, 0) < rv for resource, rv in self.min_observed.items())


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The whole cluster in the projection, from one consistent read."""

    nodes: Mapping[str, bytes] = field(default_factory=dict)
    node_requests: Mapping[str, bytes] = field(default_factory=dict)
    """node -> requests of all pods on it (`api.node_requests`); a node without pods has no entry."""
    synced: bool = False
    """False while the projection is being filled: no decision may rest on it."""
    nodes_whole: bool = False
    """Every node is in `nodes`. The lists of jobs may still be under way."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the projection has come, and in which cluster: what a new watcher needs in order to resume."""

    cluster: str = ""
    """Cluster id of the last synced writer; '' if it did not know it."""
    progress: Mapping[str, int] = field(default_factory=dict)
    """watch (`pods`, `pods/<namespace>`) -> resourceVersion up to which it has shown everything."""
    synced: bool = False
    """The projection is complete up to `progress`."""
    form: str = ""
    """Form of the records of the last synced writer; '' if it named none."""


class Projection(Protocol):
    # -- written by the watcher --------------------------------------------------------------------
    def lead(self, token: int, form: str = "", *, outright: bool = False) -> None:
        """Become the writer; after Lost, a writer leads again. `form`: the form of the records that it will write. If
        the last synced writer had another form, the checkpoint has none from now on; but of forms `key:form` with the
        same key it keeps `key:`. Raises Fenced if a newer writer has led. `outright` skips that check, for a token that
        no watcher wrote."""
        ...

    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        """Write changes in order, then the progress of each watch. Returns the queued keys that still need a Celery
        task; the caller publishes them, up to KEYS_PER_TASK with each. Raises Fenced if a newer writer has led, Lost if
        the projection has vanished or is an older one.

        Not stored: a change that is not newer than the stored record or than the object's deletion; a child of a
        finished job. Stored, but queues nothing: the echo of an own write (see `WorkQueue.finish_all`); a child whose
        job is unknown or was created again under the name of a finished one (the job's own event queues it); the
        deletion of a job, which also removes its key from the queue.

        Safe to call twice with the same changes. The resync finds keys that were queued by a call whose answer was
        lost."""
        ...

    def free(self, token: int, changes: Sequence[Change]) -> list[JobKey]:
        """`apply` deletions, and changes that make no record longer, also in a store that is full and refuses `apply`
        (Transient with the reason REDIS_FULL). The other changes are left out, so call `apply` with all of them
        afterwards. It drops changes that are older than a deletion that was written here."""
        ...

    def apply_nodes(self, token: int, nodes: Mapping[str, bytes | None]) -> None:
        """Write nodes; None deletes a node. Queues nothing. Raises like `apply`."""
        ...

    def apply_node_requests(self, token: int, requests: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        """Write the requests of each node's pods; None for a node without pods. `whole`: nodes that are not named have
        no pods either. Queues nothing. Raises like `apply`."""
        ...

    def mark_children(self, token: int) -> None:
        """Mark that every list except those of jobs has been projected: from now on a pass may decide on a view that
        has its job, although other jobs are not listed yet. The mark ends with the writer. Raises like `apply`."""
        ...

    def mark_synced(self, token: int, cluster: str = "", form: str = "") -> None:
        """Mark that every list has been projected, of this cluster and in this form. Raises like `apply`."""
        ...

    def reset(self, token: int) -> None:
        """Delete everything that has a resourceVersion (records, progress, tombstones, own writes, echoes, news): the
        cluster has a new history, because it is another cluster or was restored from a backup. Keeps the queue, leases
        and fencing tokens. Deletes `synced` first and `progress` last, so that the next writer repeats a reset that was
        cut off. Raises like `apply`."""
        ...

    # -- written by workers ------------------------------------------------------------------------
    def distrust(self, entries: Sequence[RecordPlace]) -> None:
        """Delete these records and their versions, and make the writer's next write raise Lost: then the watcher lists
        everything again. Until then nothing is synced."""
        ...

    # -- read by the watcher -----------------------------------------------------------------------
    def checkpoint(self) -> Checkpoint: ...

    def known_keys(self) -> Iterable[JobKey]:
        """Every key for which the projection has a job or a child, for the sweep after a list."""
        ...

    def known_children(self, keys: Sequence[JobKey], resource: GroupResource) -> Sequence[tuple[JobKey, str]]:
        """(key, name) of every child of that resource under these keys, for the sweep after a list."""
        ...

    def known_nodes(self) -> Iterable[str]: ...

    # -- read by workers ---------------------------------------------------------------------------
    def view(self, key: JobKey, node_names: Sequence[str] = ()) -> View: ...

    def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """name -> record of the nodes that the projection has."""
        ...

    def cluster(self) -> ClusterView: ...

    def unfinished(self) -> Mapping[JobKey, tuple[int, bytes]]:
        """Every unfinished job -> (resourceVersion, record). Read in parts, so not consistent: a write that rests on it
        must name the resourceVersion."""
        ...

    def children(
        self, keys: Sequence[JobKey], resources: Sequence[GroupResource]
    ) -> Mapping[JobKey, Mapping[GroupResource, Mapping[str, bytes]]]:
        """job -> resource -> name -> record, of the children of these jobs and resources. Read in parts, like
        `unfinished`."""
        ...
