"""The interface of the history's stores: Redis (`redis_history`) or an SQL database (`sql_history`).

A store is bounded by time and by the number of jobs, and drops the oldest jobs itself. It may be away, full or slow:
only the watcher writes it, in a thread of its own. `tests/integration/history/` is the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tjworker.history.records import Entry, Story, Summary

MOST_PODS, MOST_MOMENTS = 500, 200
"""How many are kept of one job. Further ones are left out, and news of those that are kept go on."""
LIVE_SECONDS = 30 * 86_400.0
"""How long a job that has neither ended nor was deleted is kept after its last change."""


@dataclass(frozen=True, slots=True)
class Bounds:
    seconds: float
    jobs: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a write has left out for good."""

    entries: int = 0
    """Entries that the store refuses."""
    parts: int = 0
    """Pods and moments beyond MOST_PODS and MOST_MOMENTS."""

    def __add__(self, other: LeftOut) -> LeftOut:
        return LeftOut(self.entries + other.entries, self.parts + other.parts)


class HistoryStore(Protocol):
    """Every method raises OperatorError if the store does not answer. Thread-safe."""

    def put(self, entries: Sequence[Entry], now: float) -> LeftOut:
        """Add the entries. Drop the jobs whose `keep_until` is before `now` (Unix seconds) and, if there are more jobs
        than the bounds allow, those whose `keep_until` comes first. Raises Transient if not all was written: the caller
        writes the entries again."""
        ...

    def summaries(self) -> list[Summary]:
        """The summaries of all jobs, in no order."""
        ...

    def story(self, namespace: str, uid: str) -> Story | None:
        """The story of one job; None if the store does not have it."""
        ...

    def close(self) -> None: ...


def ended(summaries: Sequence[Summary]) -> list[Summary]:
    """The jobs that have ended or were deleted, the newest first."""
    # RFC 3339 in UTC sorts as text. The UID orders jobs that ended in the same second, so that pages of a list agree.
    return sorted((s for s in summaries if s.at), key=lambda s: (s.at, s.uid), reverse=True)


def find(summaries: Sequence[Summary], namespace: str, name: str, resource: str = "") -> Summary | None:
    """The newest job of that name. `resource` '': of any kind."""
    named = [s for s in summaries if (s.namespace, s.name) == (namespace, name)]
    return max((s for s in named if resource in ("", s.resource)), key=lambda s: (s.created_at, s.uid), default=None)
