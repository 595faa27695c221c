"""What the operator keeps in Redis, as one Protocol: projection, work queue, locks, floors. `keys.py` documents every key.

`redis_store.py` is the real one (one Lua script or pipeline a call, so each call happens whole or not at all);
`memory.py` the in-memory one for tests. `tests/contract/test_store.py` holds both to the same answers. Every method
raises Transient when Redis is away, read-only or out of memory. Nothing here is needed to be true: after FLUSHALL the
watcher projects anew and everything goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tjworker.base import JobKey


@dataclass(frozen=True, slots=True)
class Change:
    """One watch event, projected. `record` is compact JSON, None for a deletion (then `rv` is that of the deletion, or of
    the list that no longer has the object). For the job itself `resource` is the key's plural, `record` its projected JSON
    and `finished` says whether it is at its end and cleaned up; a finished job keeps only that small record: its children
    are dropped and no event of it causes a task."""

    key: JobKey
    resource: str
    name: str
    rv: int
    record: bytes | None
    finished: bool = False
    is_job: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """All that the projection knows of one job, in one consistent read."""

    job: bytes | None
    """None: no such job is known."""
    children: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """resource -> name -> record."""
    seen: Mapping[str, int] = field(default_factory=dict)
    """resource -> newest resourceVersion that the watch has shown (of this job or, when newer, of the whole resource)."""
    floor: Mapping[str, int] = field(default_factory=dict)
    """resource -> resourceVersion of the operator's own last write for this job. A view with seen < floor is stale."""
    synced: bool = True
    """False while the projection is being filled (start, after FLUSHALL): nothing may be decided on it."""
    nodes: Mapping[str, bytes] = field(default_factory=dict)
    """Those of the nodes asked for that the projection has."""

    @property
    def stale(self) -> bool:
        return any(self.seen.get(r, 0) < rv for r, rv in self.floor.items())


@dataclass(frozen=True, slots=True)
class Hold:
    """A key that this worker holds. `token` never goes back, not even when Redis loses its memory."""

    key: JobKey
    token: int
    owner: str


@dataclass(frozen=True, slots=True)
class Written:
    """The operator's own writes of one pass: (resource, resourceVersion the API server answered with)."""

    versions: Sequence[tuple[str, int]] = ()
    gone: Sequence[tuple[str, int]] = ()
    """Likewise of the deletions that left nothing. They raise the floor, but their events are news: what waited for the
    object to be gone goes on."""


NOTHING_WRITTEN = Written()


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the projection knows of the cluster as a whole, in one consistent read."""

    nodes: Mapping[str, bytes] = field(default_factory=dict)
    loads: Mapping[str, bytes] = field(default_factory=dict)
    """Node -> what all pods there ask for (`api.podload`); a node without pods has no entry."""
    synced: bool = False
    """False while the projection is being filled: nothing may be decided on it."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    queued: int
    delayed: int
    running: int
    oldest_seconds: float
    unfinished: int
    failing: int


@dataclass(frozen=True, slots=True)
class History:
    """Of which cluster the projection is, and how far it goes."""

    cluster: str = ""
    """The cluster's identity as the last synced writer knew it; '' when it did not."""
    progress: Mapping[str, int] = field(default_factory=dict)
    """watch (`pods`, `pods/<namespace>`) -> resourceVersion up to which it has shown everything."""
    synced: bool = False
    """The projection is whole as far as `progress` goes: it was whole once, and both are written in one step since."""
    form: str = ""
    """What the last synced writer called the form of its records; '' when it did not."""


class Store(Protocol):
    # -- projection: the watcher writes (fenced by its leadership), workers read ------------------------------------
    def lead(self, token: int, form: str = "") -> None:
        """Become the writer of the projection; a writer may lead again, as it does after Lost. `form`: of the records that it
        writes; where it is another than that of `mark_synced`, the projection has none from now on. Raises Fenced when a newer
        writer has been here."""
        ...

    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        """Write changes in order, and the watch's progress per resource (`pods`, or `pods/<namespace>` where each
        namespace has its own watch). Returns the keys that this call newly queued, for which the caller must publish one
        task each. Raises Fenced when a newer writer has been here, Lost (below) when the projection has vanished or Redis
        came back with an older one.

        No news, so neither stored nor queued: what is older than what is stored or than the object's deletion, or the
        same again. Stored but queues nothing: the echo of an own write (see `finish`), a child whose job is not known
        (the job's own arrival queues it), and the deletion of a job, which also takes its key out of the queue. A child
        of a finished job is not even stored.

        May be called twice with the same changes, so after Transient the caller calls again. Keys that a call queued
        whose answer was lost come back by resync."""
        ...

    def apply_nodes(self, token: int, nodes: Mapping[str, bytes | None]) -> None:
        """Write nodes; None for one that is gone. Queues nothing. Raises as `apply`."""
        ...

    def apply_loads(self, token: int, loads: Mapping[str, bytes | None], *, whole: bool = False) -> None:
        """Write what the pods of each node ask for; None for a node that has none. `whole`: nor has any that is not named.
        Queues nothing. Raises as `apply`."""
        ...

    def cluster(self) -> ClusterView: ...

    def unfinished(self) -> Mapping[JobKey, tuple[int, bytes]]:
        """Every unfinished job: its resourceVersion and its record. Read in parts, so not all of one moment: whoever acts
        on it names that version."""
        ...

    def children(
        self, keys: Sequence[JobKey], resources: Sequence[str]
    ) -> Mapping[JobKey, Mapping[str, Mapping[str, bytes]]]:
        """Of each of these jobs its children of those resources: resource -> name -> record. Likewise in parts."""
        ...

    def mark_synced(self, token: int, cluster: str = "", form: str = "") -> None:
        """Every list of this cluster has been projected, in this form: views may be decided on. Raises as `apply`."""
        ...

    def history(self) -> History: ...

    def forget_history(self, token: int) -> None:
        """The cluster's history began anew (another cluster, or one restored from a backup), so that resourceVersions mean
        nothing any more: drops all that carries one (projection, progress, tombstones, floors, echoes, news) and what is
        synced. Keeps the queue, locks and fencing tokens. First nothing may be decided any more, last the progress goes:
        cut off anywhere, the next writer finds the same and does it again. Raises as `apply`."""
        ...

    def known_keys(self) -> Iterable[JobKey]:
        """Every job or child group that the projection holds (for the relist's sweep)."""
        ...

    def known_children(self, keys: Sequence[JobKey], resource: str) -> Sequence[tuple[JobKey, str]]:
        """(job key, name) of every child of that resource under these keys, for the relist's sweep."""
        ...

    def known_nodes(self) -> Iterable[str]: ...

    def view(self, key: JobKey, node_names: Sequence[str] = ()) -> View:
        """Job, children, nodes, progress and floor as they stood at one moment."""
        ...

    def nodes(self, names: Iterable[str]) -> Mapping[str, bytes]: ...

    # -- work queue: client-go's promises, across processes -----------------------------------------------------------
    def add(self, keys: Iterable[JobKey]) -> list[JobKey]:
        """Queue keys. Returns those that were not queued and do not run: the caller publishes one task for each. A key
        that runs is marked dirty and comes back at its `finish`."""
        ...

    def add_after(self, key: JobKey, seconds: float) -> None:
        """Queue later. Of two times the earlier counts. Never a Celery ETA. A pass that begins before the time has come
        takes its place: whoever wants a later look says so again at `finish`."""
        ...

    def take_due(self, limit: int) -> list[JobKey]:
        """Move keys whose time has come into the queue. Returns those to publish."""
        ...

    def acquire(self, key: JobKey, owner: str, ttl_seconds: float) -> Hold | None:
        """Start to work on a queued key. None when it is not queued (a doubled task) or held by somebody else."""
        ...

    def acquire_view(self, key: JobKey, owner: str, ttl_seconds: float) -> tuple[Hold, View] | None:
        """`acquire` and, of what it then holds, `view`: in one round trip, since every pass does both."""
        ...

    def renew(self, hold: Hold, ttl_seconds: float) -> None:
        """Keep the key for that long from now. Raises Fenced when the lease has lapsed: somebody else may hold the key."""
        ...

    def finish(
        self,
        hold: Hold,
        written: Written = NOTHING_WRITTEN,
        *,
        again: bool = False,
        after_seconds: float | None = None,
        failed: bool = False,
    ) -> FinishResult:
        """Let go of the key. `again`: queue it at once; `after_seconds`: later; `failed`: later with the key's own
        exponential backoff and jitter (otherwise the count of its failures is forgotten). A key that changed while it
        ran, by news other than the echoes of `written`, is queued again. A lapsed hold changes nothing of the queue but is
        no error (its floor rises all the same: the writes have happened).

        The event of an own write queues nothing, whether it comes before or after this call. So a pass that did nothing
        because its view was stale must ask for `after_seconds`: the event that it waits for will not wake it."""
        ...

    def raise_floor(self, hold: Hold, written: Written) -> None:
        """Record own writes at once, before a long pass ends. Raises Fenced as `renew`. `finish` may name them again."""
        ...

    # -- resync --------------------------------------------------------------------------------------------------------
    def resync(self, *, lost_after_seconds: float, everything: bool) -> list[JobKey]:
        """Keys to publish again: those queued for longer than that without a worker (their task was lost; not looked for
        while the broker holds a task for each), those whose holder died, and with `everything` each unfinished job."""
        ...

    def once(self, name: str, period_seconds: float) -> bool:
        """True for one caller a period: two beats do no harm. The period begins with that caller."""
        ...

    def stats(self) -> QueueStats: ...

    def ping(self) -> None:
        """Raises Transient when Redis does not answer."""
        ...


@dataclass(frozen=True, slots=True)
class FinishResult:
    publish: bool
    """The caller publishes one task for the key."""
    backoff_seconds: float | None = None
    failures: int = 0


class Lost(Exception):
    """The projection has vanished (FLUSHALL, a new Redis) or is an older one (a restart that lost the last writes): the
    watcher calls `lead` again, lists everything, applies it all and marks it synced."""
