"""How a pass over one job ends: what Flower shows, and when the work queue gives the key out again. Here stands what
each kind of error leads to.

`JobReconciler` carries a Result out when it releases the key. Pure, but for `BesideRests`, which remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tjworker.base import (
    REDIS_AWAY,
    REDIS_FULL,
    Conflict,
    Invalid,
    JobKey,
    OperatorError,
    Terminal,
    Transient,
    shortened,
)
from tjworker.kube.errors import NO_PERMISSION
from tjworker.reconcile.plan import Create, Plan

State = Literal["done", "stale", "retried", "failed"]
"""What a pass is counted as, and how Flower shows it: green, green, yellow, red. To wait for the watch is the everyday
of a pass that comes right after a write, and no trouble."""
TERMINAL_RETRY_SECONDS = 300.0
"""For errors that waiting does not cure. A new version of the job or of the operator may, so the key comes back."""

REDIS_RETRY_SECONDS = 2.0
"""After a pass that ended because Redis takes no writes. Not a failure of the job: were it counted as one, the wait
would grow with the length of the outage, and the job would stand still for as long again once Redis is back."""

BESIDE_RETRY_SECONDS = 30.0
"""Of what is refused for now (a quota). No growing backoff: nothing waits for it."""
KEYS_REMEMBERED = 1_000
Wanted = Mapping[str, Mapping[str, Any]]
"""Name -> body."""


@dataclass(frozen=True, slots=True)
class Result:
    """By default the key comes back when something changes."""

    text: str
    again: bool = False
    """Queue the key at once."""
    after_seconds: float | None = None
    """Queue it after that long. With `failed`: no later than that."""
    failed: bool = False
    """Queue it with its own exponential backoff, one failure up."""
    stale: bool = False
    """The view was stale: queue it soon, and less soon each time."""
    behind: bool = False
    """It was known to be: queue it as soon as the watch has shown the own write that it waits for."""
    terminal: bool = False
    unfit: bool = False
    """The pass could not do its work, for another reason than these; one that can comes by itself."""

    @property
    def state(self) -> State:
        if self.terminal:
            return "failed"
        if self.stale:
            return "stale"
        return "retried" if self.failed or self.unfit else "done"


@dataclass(frozen=True, slots=True)
class Worked:
    """A key that a task has worked on, from the moment at which it got it."""

    key: JobKey
    result: Result
    seconds: float


NOTHING_TO_DO = "nothing to do: the key is not queued, or another worker has it"
MOST_WORDS_CHARS = 2_000
_WORST_FIRST: Sequence[State] = ("failed", "retried", "stale", "done")


def worst(worked: Sequence[Worked]) -> State:
    """How Flower shows a task that worked on these."""
    return min((w.result.state for w in worked), key=_WORST_FIRST.index, default="done")


def in_words(worked: Sequence[Worked], named: str) -> str:
    """What Flower shows of a task that names this key: how the pass over that ended, or which jobs it worked on
    instead; those that have something to tell come first."""
    if not worked:
        return NOTHING_TO_DO
    if len(worked) == 1:
        (only,) = worked
        return only.result.text if only.key == named else f"{only.key}: {only.result.text}"
    told = [f"{w.key}: {w.result.text}" for w in sorted(worked, key=lambda w: _WORST_FIRST.index(w.result.state))]
    return f"{len(told)} jobs: {shortened(told, MOST_WORDS_CHARS, '; ')}"


def after_error(error: OperatorError, latest_seconds: float | None = None) -> Result:
    """What an error leads to. `latest_seconds`: when a timer of the job runs out, such as a node's grace or a limit of
    time; a backoff does not outlast it. A timer that is due now (0) waits for the backoff all the same, so that a
    refused pass does not spin."""
    if isinstance(error, Conflict):
        # The write that won comes by watch. It may be an echo of our own, which queues nothing: the pass asks to
        # return.
        return Result(f"stale view: {error.message}", stale=True)
    if error.reason in (REDIS_AWAY, REDIS_FULL):
        return Result(error.message, after_seconds=REDIS_RETRY_SECONDS, unfit=True)
    # A right is granted from outside, and an API server that has just started refuses everybody.
    if not isinstance(error, Transient) and error.status not in NO_PERMISSION:
        return not_retryable(f"{type(error).__name__}: {error.message}")
    if (wait := error.retry_after_seconds) is not None:
        return Result(f"{error.message}; next try in {wait:.0f} s, as the server asked", after_seconds=wait, unfit=True)
    return Result(error.message, after_seconds=latest_seconds or None, failed=True)


def not_retryable(what: str) -> Result:
    """Waiting does not cure it: Invalid, Terminal, a bug."""
    text = f"{what}; next try in {TERMINAL_RETRY_SECONDS:.0f} s"
    return Result(text, after_seconds=TERMINAL_RETRY_SECONDS, terminal=True)


class BesideRests:
    """What stands beside a job and was refused rests before it is tried again, however many passes the job has
    meanwhile. A process's memory, and a shortcut: another process, or this one started anew, tries once more. What the
    job asks for now and did not then, as after an edit, is tried at once."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._until: dict[JobKey, tuple[float, Wanted]] = {}

    def keep_back(self, key: JobKey, plan: Plan) -> Plan:
        """Without the creates that rest; then the next pass comes when they have."""
        until, refused = self._until.get(key, (0.0, {}))
        left = until - self._monotonic()
        wanted = _wanted(plan)
        if left <= 0 or not wanted or wanted != refused:
            self._until.pop(key, None)
            return plan
        writes = tuple(w for w in plan.writes if not (isinstance(w, Create) and w.beside))
        again = plan.requeue_after_seconds
        return replace(plan, writes=writes, requeue_after_seconds=left if again is None else min(again, left))

    def refused(self, key: JobKey, plan: Plan, error: OperatorError) -> float:
        """Seconds for which it rests now."""
        if len(self._until) >= KEYS_REMEMBERED:
            self._until.clear()
        seconds = TERMINAL_RETRY_SECONDS if isinstance(error, (Invalid, Terminal)) else BESIDE_RETRY_SECONDS
        self._until[key] = self._monotonic() + seconds, _wanted(plan)
        return seconds


def _wanted(plan: Plan) -> Wanted:
    return {w.name: w.body for w in plan.writes if isinstance(w, Create) and w.beside}
