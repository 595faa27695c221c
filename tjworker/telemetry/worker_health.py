"""Judges whether a worker takes tasks: for /healthz and /readyz, and for a worker that must end itself. Pure: times and
counts are arguments.

A ping shows too little: a worker that has stopped consuming still answers it. A worker works if the loop of its main
process turns, if it consumes its queue, and if it takes waiting messages while it has a free process. While Redis does
not answer the worker, a restart would cure nothing, and these checks do not fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LOOP_LIMIT_SECONDS = 60.0
"""The loop turns every second or two. A call of a silent Redis delays it by 8 s."""
IGNORING_LIMIT_SECONDS = 60.0
"""A free worker takes a waiting message at once. Within this time several looks find it waiting."""
USELESS_LIMIT_SECONDS = 120.0
"""A worker that takes no task for this long although Redis answers ends itself. In Kubernetes the liveness probe comes
first. Docker Compose and `tj up` restart only a process that has ended."""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The state of a worker."""

    sign_age_seconds: float
    """Since the loop turned, or the worker tried to reach Redis."""
    reaching: bool
    """The worker tries to reach Redis. A restart would not shorten that."""
    consuming: bool
    queue: str
    ignoring_seconds: float = 0.0
    redis_answers_seconds: float = 0.0
    """How long Redis has answered a thread of this process without a gap; 0 while it does not answer."""

    def problems(self) -> list[str]:
        """Why the worker is not alive; [] if it is."""
        found = []
        # Only time in which Redis answered counts: a silent Redis holds the loop up, and a restart cures nothing.
        if min(self.sign_age_seconds, self.redis_answers_seconds) > LOOP_LIMIT_SECONDS:
            found.append(
                f"the worker's loop has not turned for {self.sign_age_seconds:.0f} s (limit {LOOP_LIMIT_SECONDS:.0f} s)"
            )
        if self.redis_away:
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
    def redis_away(self) -> bool:
        """True if this worker cannot reach Redis."""
        return self.reaching or not self.redis_answers_seconds

    @property
    def ready(self) -> bool:
        """True if the worker takes tasks."""
        return not self.redis_away and not self.problems()

    def body(self) -> dict[str, Any]:
        return {
            "redis_away": self.redis_away,
            "consuming": self.consuming,
            "loop_age_seconds": round(self.sign_age_seconds, 1),
            "ignoring_seconds": round(self.ignoring_seconds, 1),
            "problems": self.problems(),
        }


class IgnoredMessages:
    """Measures for how long a worker with a free process has taken no task although messages wait."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._taken = -1

    def look(self, now: float, waiting: int, free: bool, taken: int) -> float:
        """The seconds so far. `taken`: how many tasks the worker has taken since it began."""
        # A worker with a task in each process rightly leaves messages to others.
        if not waiting or not free or taken != self._taken:
            self._since = None
        elif self._since is None:
            self._since = now
        self._taken = taken
        return 0.0 if self._since is None else now - self._since


class Lasting:
    """Measures for how long a condition has been true at every look."""

    def __init__(self, gap_seconds: float) -> None:
        """After a gap longer than `gap_seconds` between two looks, the time starts from 0: the process was stopped, and
        did not look."""
        self._gap_seconds = gap_seconds
        self._since = self._seen = float("-inf")

    def look(self, now: float, is_so: bool) -> float:
        """Note one look. Returns the seconds, including this look."""
        if not is_so:
            self._seen = float("-inf")
            return 0.0
        if now - self._seen > self._gap_seconds:
            self._since = now
        self._seen = now
        return now - self._since

    def seconds(self, now: float) -> float:
        """The seconds without a new look; 0 if the last look is too old, or found the condition false."""
        # Never 0 while the condition holds: at the first look no time has passed yet.
        return max(now - self._since, 1e-9) if now - self._seen <= self._gap_seconds else 0.0
