"""How a pass over one job ended: a sum type. It decides when the work queue gives the key out again, and what Flower
shows.

`after_error` is the table of what each kind of error leads to. `Releases` turns an end into a call of the work queue.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from tjworker.base import REDIS_AWAY, REDIS_FULL, Conflict, JobKey, OperatorError, Transient, shortened
from tjworker.kube.errors import NO_PERMISSION

State = Literal["done", "stale", "retried", "failed"]
"""How a pass is counted, and its colour in Flower: green, green, yellow, red. `stale` is green: waiting for the watch
is normal right after a write."""
TERMINAL_RETRY_SECONDS = 300.0
"""Before a pass is repeated whose error no wait cures. A new version of the job or of the operator may cure it."""
REDIS_RETRY_SECONDS = 2.0
"""Before a pass is repeated that ended because Redis takes no writes."""


@dataclass(frozen=True, slots=True)
class Done:
    """The pass did its work. The next one begins when something changes, or after `latest_seconds`."""

    text: str
    latest_seconds: float | None = None
    state: ClassVar[State] = "done"


@dataclass(frozen=True, slots=True)
class QueueAgain:
    """The pass did its work, and there is more to do: the next one begins as soon as a worker is free."""

    text: str
    state: ClassVar[State] = "done"


@dataclass(frozen=True, slots=True)
class AwaitWatch:
    """The view was stale, so the pass wrote nothing. The next one begins soon, and later after each stale pass in a
    row."""

    text: str
    own_write: bool = False
    """The view lacks a known write of the operator. The event of that write begins the next pass."""
    state: ClassVar[State] = "stale"


@dataclass(frozen=True, slots=True)
class RetryWithBackoff:
    """The pass failed. The next one begins after the key's exponential backoff, or after `latest_seconds` if that is
    sooner."""

    text: str
    latest_seconds: float | None = None
    state: ClassVar[State] = "retried"


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """The pass could not do its work, through no fault of the job. The next one begins after `seconds`, and the key's
    backoff does not grow."""

    text: str
    seconds: float
    state: ClassVar[State] = "retried"


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The pass failed, and waiting cures nothing. With `seconds` the operator tries again after that long; without, the
    key comes back only when something changes."""

    text: str
    seconds: float | None = None
    state: ClassVar[State] = "failed"


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """Another worker holds the key. This pass has nothing to release."""

    text: ClassVar[str] = "lost the lease"
    state: ClassVar[State] = "retried"


ReleasedEnd = Done | QueueAgain | AwaitWatch | RetryWithBackoff | RetryAfter | GiveUp
PassEnd = ReleasedEnd | LeaseLost


@dataclass(frozen=True, slots=True)
class EndedPass:
    """`seconds`: how long the worker held the key."""

    key: JobKey
    end: PassEnd
    seconds: float


NOTHING_TO_DO = "nothing to do: the key is not queued, or another worker has it"
MAX_TEXT_CHARS = 2_000
_WORST_FIRST: Sequence[State] = ("failed", "retried", "stale", "done")


def worst_state(passes: Sequence[EndedPass]) -> State:
    """The state of a task that made these passes."""
    return min((ended.end.state for ended in passes), key=_WORST_FIRST.index, default="done")


def describe_passes(passes: Sequence[EndedPass], named: str) -> str:
    """The text that Flower shows for a task whose message names the key `named`. Passes that need attention come
    first."""
    if not passes:
        return NOTHING_TO_DO
    if len(passes) == 1:
        (only,) = passes
        # A task works on the keys whose turn it is, so it may have worked on another key than the named one.
        return only.end.text if only.key == named else f"{only.key}: {only.end.text}"
    worst_first = sorted(passes, key=lambda ended: _WORST_FIRST.index(ended.end.state))
    texts = [f"{ended.key}: {ended.end.text}" for ended in worst_first]
    return f"{len(texts)} jobs: {shortened(texts, MAX_TEXT_CHARS, '; ')}"


def after_error(error: OperatorError, latest_seconds: float | None = None) -> ReleasedEnd:
    """The end of a pass that raised `error`. `latest_seconds`: seconds until a timer of the job, such as a node's grace
    period or a time limit, needs the next pass; a backoff may not delay it."""
    if isinstance(error, Conflict):
        # The watch will show the write that won. But that may be an echo of our own write, and an echo queues nothing:
        # so the pass asks to come back.
        return AwaitWatch(f"stale view: {error.message}")
    if error.reason in (REDIS_AWAY, REDIS_FULL):
        # No backoff: it would grow with the outage, and keep the job waiting as long again after it.
        return RetryAfter(error.message, REDIS_RETRY_SECONDS)
    # A missing permission is retried like a Transient: somebody may grant it, and an API server that has just started
    # refuses every client.
    if not isinstance(error, Transient) and error.status not in NO_PERMISSION:
        return give_up(f"{type(error).__name__}: {error.message}")
    if (wait := error.retry_after_seconds) is not None:
        return RetryAfter(f"{error.message}; next try in {wait:.0f} s, as the server asked", wait)
    # A timer that is due now (0 s) waits for the backoff, so that a refused pass does not spin.
    return RetryWithBackoff(error.message, latest_seconds or None)


def give_up(text: str) -> GiveUp:
    """The end after an error that no wait cures: Invalid, Terminal, a bug."""
    return GiveUp(f"{text}; next try in {TERMINAL_RETRY_SECONDS:.0f} s", TERMINAL_RETRY_SECONDS)
