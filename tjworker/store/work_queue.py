"""The work queue: client-go's promises, across processes.

A key that is queued many times runs once. A key never runs twice at the same time: its worker has a lease on it, with
a fencing token. A key that changes while it runs runs again after. Failures retry with exponential backoff, and so do
passes that die with their process. Namespaces take turns, whatever each of them queues.

Every method raises Transient when Redis is away, read-only or out of memory, and may then be called again. Everything
here can be lost: the resync queues every unfinished job. `redis_work_queue.py` implements it, and
`tests/integration/store/` states the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tjworker.base import GroupResource, JobKey, OperatorError
from tjworker.store.projection import View


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that this worker has leased. `token` is its fencing token: greater than every earlier one, even when Redis
    loses its memory."""

    key: JobKey
    token: int
    owner: str
    deaths: int = 0
    """Passes over this key in a row that died with their process, before this one."""


@dataclass(frozen=True, slots=True)
class Written:
    """The operator's own writes of one pass: (resource, resourceVersion that the API server answered with)."""

    versions: Sequence[tuple[GroupResource, int]] = ()
    gone: Sequence[tuple[GroupResource, int]] = ()
    """Of deletions that left nothing. They raise the minimum observed resourceVersion, but their events are news: a
    pass that waits for the object to be gone goes on."""


NOTHING_WRITTEN = Written()


@dataclass(frozen=True, slots=True)
class Taken:
    """What a task got to work on."""

    views: Sequence[tuple[Claim, View]] = ()
    publish: Sequence[JobKey] = ()
    """Of keys that were left in line: the caller publishes a task for them, as none waits."""
    at: float = 0.0
    """The store's time, in Unix seconds; 0 when no key was taken."""


@dataclass(frozen=True, slots=True)
class OnNews:
    """The next pass begins when something changes, or after `latest_seconds`."""

    latest_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class AtOnce:
    """The next pass begins as soon as a worker is free."""


@dataclass(frozen=True, slots=True)
class WithBackoff:
    """The pass failed. The next one begins after the key's exponential backoff, or after `latest_seconds` if that is
    sooner. Every other end resets the backoff."""

    latest_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class OnOwnWrite:
    """The pass did nothing, because its view lacks the operator's own last write. The next one begins when the watch
    has shown that write. Give `latest_seconds` as well: a watch may skip an event."""

    latest_seconds: float | None = None


NextPass = OnNews | AtOnce | WithBackoff | OnOwnWrite
"""When the work queue gives a key out again. A change of the job begins a pass in every case."""

ON_NEWS = OnNews()


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one pass, as `finish_all` takes it."""

    claim: Claim
    written: Written = NOTHING_WRITTEN
    next_pass: NextPass = ON_NEWS


@dataclass(frozen=True, slots=True)
class FinishResult:
    publish: bool
    """The caller publishes the key, with those of other endings: KEYS_PER_TASK with one task."""
    backoff_seconds: float | None = None
    failures: int = 0
    error: OperatorError | None = None
    """Of `finish_all`: the store could not finish this one; its lease lapses, and the resync finds it."""


@dataclass(frozen=True, slots=True)
class QueueStats:
    queued: int
    delayed: int
    running: int
    oldest_seconds: float
    unfinished: int
    failing: int


class WorkQueue(Protocol):
    # -- queueing ----------------------------------------------------------------------------------
    def add(self, keys: Iterable[JobKey]) -> list[JobKey]:
        """Queue keys. Returns those that were not queued and do not run, as far as no task that waits in the broker
        serves them, too; the caller publishes them, KEYS_PER_TASK with one task. A key that runs is marked dirty and
        comes back at its `finish`."""
        ...

    def add_after(self, key: JobKey, seconds: float) -> None:
        """Queue later; of two times the earlier counts. A pass that begins before that time takes its place: it says at
        its `finish` when it wants to look again. Never a Celery ETA."""
        ...

    def take_due(self, limit: int) -> list[JobKey]:
        """Move keys whose time has come into the queue. Returns those to publish."""
        ...

    # -- passes ------------------------------------------------------------------------------------
    def acquire(self, key: JobKey, owner: str, ttl_seconds: float) -> Claim | None:
        """Start to work on the key whose turn it is. `key`, which the task names, is only a hint: of several whose turn
        it is, this one. None when no key waits for a worker (a doubled task)."""
        ...

    def acquire_views(self, key: JobKey, owner: str, ttl_seconds: float, most: int) -> Taken:
        """`acquire` up to so many keys, and the views of those that were taken, in one round trip; two for a big job. A
        key whose last pass died comes alone, and so does a big job. Where the view of one cannot be read, that is its
        `fault`; where none can, this raises, and the keys wait as after a failure."""
        ...

    def renew(self, claim: Claim, ttl_seconds: float) -> None:
        """Keep the lease for that long from now. Raises Fenced when it has lapsed: another worker may have the key."""
        ...

    def renew_all(self, claims: Sequence[Claim], ttl_seconds: float) -> list[OperatorError | None]:
        """`renew` each, in one round trip; the error of each that is not renewed. Raises where all fail."""
        ...

    def finish(self, claim: Claim, written: Written = NOTHING_WRITTEN, next_pass: NextPass = ON_NEWS) -> FinishResult:
        """Release the key. A key that changed while it ran, by news other than the echoes of `written`, is queued at
        once.

        If the lease has lapsed, the call changes nothing in the queue and raises nothing, but `min_observed` rises: the
        writes have happened. A call that is repeated because its answer was lost does the same, and says again whether
        the key needs a task.

        The event of an own write queues nothing, whether it comes before or after this call. Only with `OnOwnWrite` the
        event of the last own write queues the key; if the watch has shown it already, this call does."""
        ...

    def finish_all(self, endings: Sequence[Ending]) -> list[FinishResult]:
        """`finish` each, in one round trip. What fails for some stands in their results; raises where all fail."""
        ...

    def raise_min_observed(self, claim: Claim, written: Written) -> None:
        """Record own writes at once, before a long pass ends. Raises Fenced as `renew`. `finish` may name them
        again."""
        ...

    def note_rest(self, key: JobKey, version: str) -> None:
        """A pass over this version of the job had nothing to do, and none of its objects was there. Kept for
        REST_TTL_SECONDS, until the job ends or is deleted; not kept for a job that the projection does not know."""
        ...

    def rests_at(self, key: JobKey) -> str:
        """The version that was noted last; '' when none is."""
        ...

    # -- periodic tasks ----------------------------------------------------------------------------
    def resync(self, *, lost_after_seconds: float, everything: bool) -> list[JobKey]:
        """Keys to publish again: those queued for longer than that without a worker (their task was lost; not looked
        for while the broker holds a task for each KEYS_PER_TASK of them), those whose lease lapsed while they ran, and
        with `everything` each unfinished job.

        A lease that lapsed counts as a death of its pass (also where `add` or an event finds it first). From the second
        in a row on the key waits, DEATH_RETRY_SECONDS and longer each time; only a change of the job itself ends
        that."""
        ...

    def repair(self, *, lease_seconds: float, everything: bool) -> int:
        """Put right what only somebody else can have written and what would hold keys up for ever: leases longer than
        that, facts without an end, times from the future, keys of another type. How many there were. `everything`: of
        each job, too; else of the queue as a whole."""
        ...

    def once(self, name: str, period_seconds: float) -> bool:
        """True for one caller a period: two beats do no harm. The period begins with that caller."""
        ...

    def time(self) -> float:
        """The store's own time, in Unix seconds: the clock that all processes share."""
        ...

    def certificate_ends(self) -> float | None:
        """When the certificate that Redis shows runs out, in Unix seconds; None without TLS."""
        ...

    def stats(self) -> QueueStats: ...
