"""Whether a worker takes tasks, as its /healthz and /readyz say it. PURE: times and counts are arguments.

A ping does not tell: a worker that has stopped consuming still answers it, and no job moves. Three things do: that the
loop of its main process turns, that it consumes its queue, and that messages which wait while it has a free process
are taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LOOP_LIMIT_SECONDS = 60.0
"""The loop turns every second or two. One call of a Redis that is silent holds it up for 8 s."""
IGNORING_LIMIT_SECONDS = 60.0
"""A free worker takes a waiting message at once. At a handful of looks, seconds apart, none was."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker, at one moment."""

    sign_age_seconds: float
    """Since its loop turned, or tried to reach Redis."""
    reaching: bool
    """It tries to reach Redis. That takes as long as it takes, and a restart would cure nothing."""
    consuming: bool
    queue: str
    ignoring_seconds: float = 0.0

    def problems(self) -> list[str]:
        found = []
        if self.sign_age_seconds > LOOP_LIMIT_SECONDS:
            found.append(
                f"the worker's loop has not turned for {self.sign_age_seconds:.0f} s (limit {LOOP_LIMIT_SECONDS:.0f} s)"
            )
        if self.reaching:
            return found
        if not self.consuming:
            found.append(f"it does not consume the queue {self.queue}")
        if self.ignoring_seconds > IGNORING_LIMIT_SECONDS:
            found.append(
                f"messages have waited in the queue {self.queue} for {self.ignoring_seconds:.0f} s, and a free process "
                f"of this worker took none (limit {IGNORING_LIMIT_SECONDS:.0f} s)"
            )
        return found

    @property
    def ready(self) -> bool:
        return not self.reaching and not self.problems()

    def body(self) -> dict[str, Any]:
        return {
            "redis_away": self.reaching,
            "consuming": self.consuming,
            "loop_age_seconds": round(self.sign_age_seconds, 1),
            "ignoring_seconds": round(self.ignoring_seconds, 1),
            "problems": self.problems(),
        }


class Ignored:
    """Since when messages wait that this worker, with a free process, does not take."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._taken = -1

    def look(self, now: float, waiting: int, free: bool, taken: int) -> float:
        """For how long, in seconds. `taken`: how many tasks it has taken since it began."""
        if not waiting or not free or taken != self._taken:
            self._since = None
        elif self._since is None:
            self._since = now
        self._taken = taken
        return 0.0 if self._since is None else now - self._since
