"""The projection: what reconcile needs to know of the cluster, written by the leading watcher and read by the workers.

Each write is fenced by the writer's token and happens whole or not at all. Every method raises Transient when Redis is
away, read-only or out of memory, and may then be called again. Nothing here is the truth: after FLUSHALL the watcher
lists everything again. `redis_projection.py` implements it; `tests/integration/store/` states the contract.
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
    """One watch event, projected. Of a job, `resource` is the one that the key names, and `finished` says that it has
    ended and is cleaned up: from then on only its own record is kept, and no event of its children queues it."""

    key: JobKey
    resource: GroupResource
    name: str
    rv: int
    """resourceVersion of the object; for a deletion that of the DELETED event, or of the list that no longer has the
    object. Compared as an integer, as Kubernetes guarantees since 1.35 (KEP-5504); 0 when none is known."""
    record: bytes | None
    """Compact JSON; None for a deletion. No store reads it: what a store compares stands beside it."""
    finished: bool = False
    is_job: bool = False
    job_uid: str = ""
    """UID of the job that it belongs to, of a job its own; '' when it does not say, as a deletion does not."""
    generation: int = 0
    """Of a job: `metadata.generation`, which a new spec raises and a status does not."""
    quiet: bool = False
    """Of a job: nothing has changed that a pass decides on. The record is written, and the key is not queued."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one record stands."""

    key: JobKey
    """'' for one that belongs to no job."""
    field: str
    """`job` or `<resource>/<name>`; without a key the name of a node."""
    of: str = ""
    """Without a key: `node`, or `requests` of its pods."""


@dataclass(frozen=True, slots=True)
class View:
    """What the projection knows of one job, in one consistent read."""

    job: bytes | None
    """None: no such job is known."""
    children: Mapping[GroupResource, Mapping[str, bytes]] = field(default_factory=dict)
    """resource -> name -> record."""
    seen: Mapping[GroupResource, int] = field(default_factory=dict)
    """resource -> newest resourceVersion that the watch has shown: of this job, or of the whole resource when that is
    newer."""
    min_observed: Mapping[GroupResource, int] = field(default_factory=dict)
    """resource -> minimum observed resourceVersion: that of the operator's own last write for this job. A view that has
    seen less is stale. Takes the place of client-go's expectations."""
    synced: bool = True
    """False while what belongs to jobs is being filled in (start, after FLUSHALL): nothing may be decided on it."""
    nodes: Mapping[str, bytes] = field(default_factory=dict)
    """Those of the nodes asked for that the projection has."""
    fault: OperatorError | None = None
    """Why it could not be read, of one among several; nothing else is in it."""

    @property
    def stale(self) -> bool:
        return any(self.seen.get(resource, 0) < rv for resource, rv in self.min_observed.items())


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the projection knows of the cluster as a whole, in one consistent read."""

    nodes: Mapping[str, bytes] = field(default_factory=dict)
    node_requests: Mapping[str, bytes] = field(default_factory=dict)
    """node -> requests of all pods on it (`api.node_requests`); a node without pods has no entry."""
    synced: bool = False
    """False while the projection is being filled: nothing may be decided on it."""
    nodes_whole: bool = False
    """Every node is in `nodes`; the lists of jobs may still be under way."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far the projection goes, and of which cluster it is: what a new watcher needs to resume from it."""

    cluster: str = ""
    """Cluster id as the last synced writer knew it; '' when it did not."""
    progress: Mapping[str, int] = field(default_factory=dict)
    """watch (`pods`, `pods/<namespace>`) -> resourceVersion up to which it has shown everything."""
    synced: bool = False
    """The projection is complete up to `progress`."""
    form: str = ""
    """What the last synced writer called the form of its records; '' when it did not."""


class Projection(Protocol):
    # -- written by the watcher --------------------------------------------------------------------
    def lead(self, token: int, form: str = "", *, outright: bool = False) -> None:
        """Become the writer; a writer leads again after Lost. `form` is that of the records it writes: when another one
        was marked synced, the checkpoint has no form from now on; of `key:form` it has `key:` where that is the same.
        Raises Fenced when a newer writer has been here, but not with `outright`: then the token there is known to be
        nobody's."""
        ...

    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        """Write changes in order, then the progress of each watch. Returns the keys that this call queued, as far as no
        task that waits serves them, too; the caller publishes them, KEYS_PER_TASK with one task. Raises Fenced when a
        newer writer has been here, Lost when the projection has vanished or is an older one.

        Neither stored nor queued: what is older than the stored record or than the object's deletion, or the same
        again; a child of a finished job. Stored, but queues nothing: the echo of an own write (see
        `WorkQueue.finish`); a child whose job is unknown, or made again under a finished one's name (the job's arrival
        queues it); a job's deletion, which also takes its key out of the queue.

        Safe to call twice with the same changes. Keys queued by a call whose answer was lost come back by resync."""
        ...

    def free(self, token: int, changes: Sequence[Change]) -> list[JobKey]:
        """As `apply`, but only the deletions and what makes a stored record no longer; also in a store that is full
        and refuses `apply` (Transient with the reason REDIS_FULL). The others are left out, so call `apply` with all
        changes afterwards. A deletion may be written here before older changes of its object: those are then dropped
        as old news."""
        ...

    def apply_nodes(self, token: int, nodes: Mapping[str, bytes | None]) -> None:
        """Write nodes; None for one that is gone. Queues nothing. Raises as `apply`."""
        ...

    def apply_node_requests(self, token: int, requests: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        """Write the requests of each node's pods; None for a node that has none. `whole`: nodes that are not named have
        none either. Queues nothing. Raises as `apply`."""
        ...

    def mark_children(self, token: int) -> None:
        """Every list of what belongs to jobs, and of nodes, has been projected: a view that has its job may be decided
        on, though other jobs are still to come. Does not outlive the writer. Raises as `apply`."""
        ...

    def mark_synced(self, token: int, cluster: str = "", form: str = "") -> None:
        """Every list of this cluster has been projected, in this form: views may be decided on. Raises as `apply`."""
        ...

    def reset(self, token: int) -> None:
        """The cluster's history began anew (another cluster, or one restored from a backup), so resourceVersions mean
        nothing any more: delete all that carries one (records, progress, tombstones, own writes, echoes, news). Keeps
        the queue, leases and fencing tokens. Deletes `synced` first and `progress` last: when it is cut off, the next
        writer finds the same and does it again. Raises as `apply`."""
        ...

    # -- written by workers ------------------------------------------------------------------------
    def distrust(self, entries: Sequence[Entry]) -> None:
        """Take these records out, with what is said of their versions, and have the writer's next write raise
        Lost, so that it lists everything again. Until then nothing is synced."""
        ...

    # -- read by the watcher -----------------------------------------------------------------------
    def checkpoint(self) -> Checkpoint: ...

    def known_keys(self) -> Iterable[JobKey]:
        """Every key of which the projection has a job or a child, for the sweep after a relist."""
        ...

    def known_children(self, keys: Sequence[JobKey], resource: GroupResource) -> Sequence[tuple[JobKey, str]]:
        """(key, name) of every child of that resource under these keys, for the sweep after a relist."""
        ...

    def known_nodes(self) -> Iterable[str]: ...

    # -- read by workers ---------------------------------------------------------------------------
    def view(self, key: JobKey, node_names: Sequence[str] = ()) -> View: ...

    def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """Those of these nodes that the projection has."""
        ...

    def cluster(self) -> ClusterView: ...

    def unfinished(self) -> Mapping[JobKey, tuple[int, bytes]]:
        """Every unfinished job: its resourceVersion and its record. Read in parts, so not all of one moment: a write
        that rests on it names that resourceVersion."""
        ...

    def children(
        self, keys: Sequence[JobKey], resources: Sequence[GroupResource]
    ) -> Mapping[JobKey, Mapping[GroupResource, Mapping[str, bytes]]]:
        """Of each of these jobs its children of those resources: resource -> name -> record. Read in parts, too."""
        ...
