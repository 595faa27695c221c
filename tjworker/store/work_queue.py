"""The work queue: the guarantees of client-go's workqueue, across processes.

A key that is queued many times runs once. A key never runs twice at the same time: its worker holds a lease on it, with
a fencing token. A key that changes while it runs, runs again afterwards. Failed passes are retried with exponential
backoff, and so are passes that die with their process. Namespaces take turns, however many keys each of them queues.

Every method raises Transient if Redis is away, read-only or out of memory, and may then be called again. Everything
here can be lost: the resync queues every unfinished job. `redis_work_queue.py` implements it, and
`tests/integration/store/` is the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tjworker.base import GroupResource, JobKey, OperatorError
from tjworker.store.projection import View


@dataclass(frozen=True, slots=True)
class Claim:
    """A lease on a key. `token` is its fencing token: greater than every earlier one, even after Redis lost its
    memory."""

    key: JobKey
    token: int
    owner: str
    deaths: int = 0
    """How many passes over this key in a row, before this one, have died with their process."""


@dataclass(frozen=True, slots=True)
class Written:
    """The writes of one pass: (resource, resourceVersion of the API server's answer)."""

    versions: Sequence[tuple[GroupResource, int]] = ()
    gone: Sequence[tuple[GroupResource, int]] = ()
    """Writes whose events are news, such as deletions that left nothing. They raise the minimum observed
    resourceVersion like the others, but their events queue the key: the next pass waits for the object to be gone."""


NOTHING_WRITTEN = Written()


@dataclass(frozen=True, slots=True)
class Taken:
    """The keys that a task has acquired."""

    views: Sequence[tuple[Claim, View]] = ()
    publish: Sequence[JobKey] = ()
    """Keys that still need a Celery task: they were left in line, and no task waits for them. The caller publishes
    them."""
    at: float = 0.0
    """Redis' time, in Unix seconds; 0 if no key was acquired."""


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
class PassEnding:
    """The end of one pass, as `finish_all` takes it."""

    claim: Claim
    written: Written = NOTHING_WRITTEN
    next_pass: NextPass = ON_NEWS


@dataclass(frozen=True, slots=True)
class FinishResult:
    publish: bool
    """The key needs a Celery task. The caller publishes it, together with those of other endings."""
    backoff_seconds: float | None = None
    failures: int = 0
    error: OperatorError | None = None
    """Set by `finish_all` if the store could not release this key. Its lease lapses, and the resync finds it."""


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
        """Queue keys. Returns the keys that still need a Celery task; the caller publishes them, up to KEYS_PER_TASK
        with each. A key that is queued, or that a waiting task serves, needs none. A key that runs is marked dirty and
        queued when its pass ends."""
        ...

    def add_after(self, key: JobKey, seconds: float) -> None:
        """Queue a key after a delay. Of two delays the earlier one counts. A pass that begins before the delay is over
        replaces it: its ending says when the next pass begins. Never a Celery ETA."""
        ...

    def take_due(self, limit: int) -> list[JobKey]:
        """Queue the keys whose delay is over. Returns the keys that still need a Celery task."""
        ...

    # -- passes ------------------------------------------------------------------------------------
    def acquire_views(self, key: JobKey, owner: str, ttl_seconds: float, most: int) -> Taken:
        """Lease up to `most` keys whose turn it is and read their views, in one round trip; in two for a big job.
        `key`, which the task names, is only a hint: it goes first among keys of the same turn. There may be no key, as
        for a doubled task. A big job comes alone, and so does a key whose last pass died. A view that cannot be read
        has a `fault`. If no view can be read, the call raises, and the keys wait as after a failure."""
        ...

    def renew(self, claim: Claim, ttl_seconds: float) -> None:
        """Extend the lease to `ttl_seconds` from now. Raises Fenced if it has lapsed: another worker may hold it."""
        ...

    def renew_all(self, claims: Sequence[Claim], ttl_seconds: float) -> list[OperatorError | None]:
        """`renew` each lease, in one round trip. Returns each lease's error, or None. Raises if all fail."""
        ...

    def finish_all(self, endings: Sequence[PassEnding]) -> list[FinishResult]:
        """Release the keys of these passes, in one round trip. A result has the error of its pass. Raises if all fail.

        A key that changed while it ran, by news other than the echoes of its `written`, is queued at once.

        If a lease has lapsed, the call changes nothing in the queue and raises nothing, but `min_observed` rises: the
        writes have happened. A call that is repeated because its answer was lost does the same, and says again whether
        the key needs a task.

        The event of an own write queues nothing, whether it comes before or after this call. Only with `OnOwnWrite` the
        event of the last own write queues the key; if the watch has shown it already, this call does."""
        ...

    def raise_min_observed(self, claim: Claim, written: Written) -> None:
        """Record writes before the pass ends. Raises Fenced like `renew`. The pass's ending may name the same writes
        again."""
        ...

    def note_rest(self, key: JobKey, version: str) -> None:
        """Note that a pass over this version of the job had nothing to do. Kept for REST_TTL_SECONDS, at most until the
        job ends or is deleted. Not kept for a job that the projection does not know."""
        ...

    def rests_at(self, key: JobKey) -> str:
        """The version that `note_rest` noted last; '' if there is none."""
        ...

    # -- periodic tasks ----------------------------------------------------------------------------
    def resync(self, *, lost_after_seconds: float, everything: bool) -> list[JobKey]:
        """Queue what was lost. Returns the keys that need a Celery task: keys whose task was lost (queued for longer
        than `lost_after_seconds`, with fewer tasks in the broker than the keys in line need), keys whose lease lapsed
        while they ran, and with `everything` each unfinished job.

        A lapsed lease counts as a death of its pass, also if `add` or an event finds it first. After the second death
        in a row the key waits for DEATH_RETRY_SECONDS, and longer after each further one. Only a change of the job
        itself ends that wait."""
        ...

    def stats(self) -> QueueStats: ...
