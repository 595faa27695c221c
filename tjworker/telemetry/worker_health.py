"""Whether a worker takes tasks, as its /healthz and /readyz say it, and when it must end itself because it does not.
PURE: times and counts are arguments.

A ping does not tell: a worker that has stopped consuming still answers it, and no job moves. Three things do: that the
loop of its main process turns, that it consumes its queue, and that messages which wait while it has a free process
are taken. None of the three is held against a worker whose Redis does not answer: a restart would cure nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

LOOP_LIMIT_SECONDS = 60.0
"""The loop turns every second or two. One call of a Redis that is silent holds it up for 8 s."""
IGNORING_LIMIT_SECONDS = 60.0
"""A free worker takes a waiting message at once. At a handful of looks, seconds apart, none was."""
USELESS_LIMIT_SECONDS = 120.0
"""A worker that Redis answers and that takes no task for so long ends itself. Kubernetes' liveness probe comes first;
Docker Compose and `tj up` restart only what has ended."""


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
    redis_answers_seconds: float = 0.0
    """For so long Redis has answered a thread of this process without a gap; 0 while it does not."""

    def problems(self) -> list[str]:
        """Why it is not alive."""
        found = []
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
        """As far as this worker can tell."""
        return self.reaching or not self.redis_answers_seconds

    @property
    def ready(self) -> bool:
        """It takes tasks."""
        return not self.redis_away and not self.problems()

    def body(self) -> dict[str, Any]:
        return {
            "redis_away": self.redis_away,
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


class Lasting:
    """For how long something has been so at every look."""

    def __init__(self, gap_seconds: float) -> None:
        """Two looks that are further apart have a gap between them: a process that was stopped has not looked."""
        self._gap_seconds = gap_seconds
        self._since = self._seen = float("-inf")

    def look(self, now: float, is_so: bool) -> float:
        """Seconds, including this look."""
        if not is_so:
            self._seen = float("-inf")
            return 0.0
        if now - self._seen > self._gap_seconds:
            self._since = now
        self._seen = now
        return now - self._since

    def seconds(self, now: float) -> float:
        """Without a look: 0 when the last one was too long ago, or saw that it is not so."""
        return max(now - self._since, 1e-9) if now - self._seen <= self._gap_seconds else 0.0
