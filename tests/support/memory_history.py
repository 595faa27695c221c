"""The history in memory: the in-memory twin of `redis_history` and `sql_history`, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tjworker.base import Json, Transient
from tjworker.history.parts import fitting
from tjworker.history.records import Entry, Moment, Story, Summary, by_creation
from tjworker.history.store import Bounds, LeftOut


@dataclass
class _Kept:
    keep_until: float
    summary: Summary | None = None
    job: Json = field(default_factory=dict)
    parts: dict[str, Any] = field(default_factory=dict)
    """Parts like `parts.parts_of`, but objects instead of bytes."""


class MemoryHistory:
    """`away`: it answers as a store that cannot be reached."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._kept: dict[tuple[str, str], _Kept] = {}
        self.away = False

    def put(self, entries: Sequence[Entry], now: float) -> LeftOut:
        self._check()
        left_out = 0
        for entry in entries:
            kept = self._kept.setdefault((entry.namespace, entry.uid), _Kept(entry.keep_until))
            if entry.summary is not None:
                kept.summary, kept.keep_until = entry.summary, entry.keep_until
            kept.job = entry.job if entry.job is not None else kept.job
            parts: dict[str, Any] = {f"pod/{uid}": pod for uid, pod in entry.pods.items()}
            parts |= {f"at/{moment.at}/{moment.phase}": moment for moment in entry.moments}
            fit = fitting(parts, kept.parts)
            left_out += len(parts) - len(fit)
            kept.parts |= fit
        over = [where for where, kept in self._kept.items() if kept.keep_until <= now]
        for where in over:
            del self._kept[where]
        oldest = sorted(self._kept, key=lambda where: self._kept[where].keep_until)
        for where in oldest[: max(0, len(oldest) - self._bounds.jobs)]:
            del self._kept[where]
        return LeftOut(parts=left_out)

    def summaries(self) -> list[Summary]:
        self._check()
        return [kept.summary for kept in self._kept.values() if kept.summary is not None]

    def story(self, namespace: str, uid: str) -> Story | None:
        self._check()
        kept = self._kept.get((namespace, uid))
        if kept is None or kept.summary is None:
            return None
        moments = [part for part in kept.parts.values() if isinstance(part, Moment)]
        pods = [part for part in kept.parts.values() if not isinstance(part, Moment)]
        return Story(kept.summary, kept.job, by_creation(pods), tuple(sorted(moments, key=lambda one: one.at)))

    def __len__(self) -> int:
        """Jobs of which anything is kept."""
        return len(self._kept)

    def close(self) -> None:
        pass

    def _check(self) -> None:
        if self.away:
            raise Transient("the history store does not answer")
