"""Where the history is kept: one interface, in Redis (`redis_history`) or in a database of SQL (`sql_history`).

A store is bounded by time and by the number of jobs, and drops the oldest by itself. It may be away, full or slow: the
watcher alone writes it, in a thread of its own. `tests/integration/history/` states the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tjworker.history.records import Entry, Story, Summary

MOST_PARTS = 600
"""Pods and moments that are kept of one job; further ones are left out."""
LIVE_SECONDS = 30 * 86_400.0
"""For so long after its last news a job is kept that has neither ended nor was deleted."""


@dataclass(frozen=True, slots=True)
class Bounds:
    seconds: float
    jobs: int


class HistoryStore(Protocol):
    """Every method raises OperatorError when the store cannot be asked. Thread-safe."""

    def put(self, entries: Sequence[Entry], now: float) -> None:
        """Add this news, then drop what is over by `now` (Unix seconds) and, of more jobs than the bounds allow, those
        whose time ends first. Raises Transient where nothing or only a part was written: write it again."""
        ...

    def summaries(self) -> list[Summary]:
        """Of every job that is kept, in no order."""
        ...

    def story(self, namespace: str, uid: str) -> Story | None: ...

    def close(self) -> None: ...


def ended(summaries: Sequence[Summary]) -> list[Summary]:
    """Those that are history: ended or deleted, the newest first."""
    return sorted((one for one in summaries if one.at), key=lambda one: (one.at, one.uid), reverse=True)


def find(summaries: Sequence[Summary], namespace: str, name: str, resource: str = "") -> Summary | None:
    """The job of that name that was there last; `resource` '': of any kind."""
    named = [one for one in summaries if (one.namespace, one.name) == (namespace, name)]
    return max(
        (one for one in named if resource in ("", one.resource)),
        key=lambda one: (one.created_at, one.uid),
        default=None,
    )
