"""The history in memory: the in-memory twin of `redis_history` and `sql_history`, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tjworker.base import Transient
from tjworker.history.records import Entry, Json, Moment, Story, Summary, by_creation
from tjworker.history.store import MOST_PARTS, Bounds


@dataclass
class _Kept:
    keep_until: float
    summary: Summary | None = None
    job: Json = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    moments: dict[tuple[str, str], Moment] = field(default_factory=dict)


class MemoryHistory:
    """`away`: it answers as a store that cannot be reached."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._kept: dict[tuple[str, str], _Kept] = {}
        self.away = False
        self.puts = 0

    def put(self, entries: Sequence[Entry], now: float) -> None:
        self._check()
        self.puts += 1
        for entry in entries:
            kept = self._kept.setdefault((entry.namespace, entry.uid), _Kept(entry.keep_until))
            if entry.summary is not None:
                kept.summary, kept.keep_until = entry.summary, entry.keep_until
            kept.job = entry.job if entry.job is not None else kept.job
            room = MOST_PARTS - len(kept.pods) - len(kept.moments)
            pods = list(entry.pods.items())[: max(0, room)]
            kept.pods.update(pods)
            kept.moments.update({(m.at, m.phase): m for m in list(entry.moments)[: max(0, room - len(pods))]})
        over = [where for where, kept in self._kept.items() if kept.keep_until <= now]
        for where in over:
            del self._kept[where]
        oldest = sorted(self._kept, key=lambda where: self._kept[where].keep_until)
        for where in oldest[: max(0, len(oldest) - self._bounds.jobs)]:
            del self._kept[where]

    def summaries(self) -> list[Summary]:
        self._check()
        return [kept.summary for kept in self._kept.values() if kept.summary is not None]

    def story(self, namespace: str, uid: str) -> Story | None:
        self._check()
        kept = self._kept.get((namespace, uid))
        if kept is None or kept.summary is None:
            return None
        moments = tuple(sorted(kept.moments.values(), key=lambda one: one.at))
        return Story(kept.summary, kept.job, by_creation(list(kept.pods.values())), moments)

    def __len__(self) -> int:
        """Jobs of which anything is kept."""
        return len(self._kept)

    def close(self) -> None:
        pass

    def _check(self) -> None:
        if self.away:
            raise Transient("the history store does not answer")
