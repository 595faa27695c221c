"""Repairs entries of Redis that a stranger has written and that would stay for ever. Runs in the leading watcher. Safe
to run twice.

Not in beat: its tasks are messages, and a broken Redis may not carry them. The keys of the queue are repaired as often
as the resync runs, those of every job as often as the full resync, and all at once if Redis refuses a command of the
writer: one key of another type stops all writes.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from tjworker.base import OperatorError
from tjworker.settings import Settings
from tjworker.store.maintenance import Maintenance

log = structlog.get_logger(__name__)


class Repairs:
    def __init__(self, maintenance: Maintenance, settings: Settings, now: Callable[[], float]) -> None:
        self._maintenance = maintenance
        self._lease_seconds = settings.lock_ttl_seconds
        self._every = settings.resync_seconds, settings.full_resync_seconds
        self._now = now
        self._next = now() + self._every[0]
        self._next_whole = now() + self._every[1]
        self._refused_at = -self._every[0]

    def step(self) -> bool | None:
        """Repair if it is time. True if the keys of every job were checked, None if it was not time. Raises Transient
        if Redis is away."""
        now = self._now()
        if now < self._next:
            return None
        whole = now >= self._next_whole
        self._repair(everything=whole)
        self._next = now + self._every[0]
        if whole:
            self._next_whole = now + self._every[1]
        return whole

    def repair_all(self) -> None:
        """Repair everything, because Redis has refused a command: any key may have another type."""
        # It scans all of Redis, and the writer retries every second.
        if self._now() - self._refused_at < self._every[0]:
            return
        self._refused_at = self._now()
        try:
            self._repair(everything=True)
        except OperatorError as error:
            log.warning("cannot look Redis through", error=error.message)

    def _repair(self, *, everything: bool) -> None:
        repaired = self._maintenance.repair(lease_seconds=self._lease_seconds, everything=everything)
        if repaired:
            log.warning(
                "repaired entries of Redis that would have blocked jobs: unless a clock was set or a pass was paused"
                " for long, somebody else writes this Redis; change its passwords (docs/operations.md)",
                entries=repaired,
            )
