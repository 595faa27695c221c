"""How a pass over one job ends: what Flower shows, and when the work queue gives the key out again. Here stands what
each kind of error leads to.

Pure. `JobReconciler` carries a Result out when it releases the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tjworker.base import Conflict, OperatorError, Transient
from tjworker.kube.errors import NO_PERMISSION

State = Literal["done", "stale", "retried", "failed"]
"""What a pass is counted as, and how Flower shows it: green, green, yellow, red. To wait for the watch is the everyday
of a pass that comes right after a write, and no trouble."""
TERMINAL_RETRY_SECONDS = 300.0
"""For errors that waiting does not cure. A new version of the job or of the operator may, so the key comes back."""


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


def after_error(error: OperatorError, latest_seconds: float | None = None) -> Result:
    """What an error leads to. `latest_seconds`: when a timer of the job runs out, such as a node's grace or a limit of
    time; a backoff does not outlast it. A timer that is due now (0) waits for the backoff all the same, so that a
    refused pass does not spin."""
    if isinstance(error, Conflict):
        # The write that won comes by watch. It may be an echo of our own, which queues nothing: the pass asks to
        # return.
        return Result(f"stale view: {error.message}", stale=True)
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
