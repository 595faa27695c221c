"""The watcher's answers to /healthz and /readyz. Pure.

The watcher is alive if each watch has received something within the limit. A watcher that waits, for the leadership or
for an API server or a Redis that is away, is alive, since a restart would cure nothing. A leader that waits is not
ready, since the projection grows old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

SIGN_LIMIT_SECONDS = 90.0
"""The default. A watch is reopened after `watch_timeout_seconds` (60 s) of silence, and two requests may remain without
an answer."""
STEP_LIMIT_SECONDS = 180.0
SKIPPED_SHOWN = 10
"""How many skipped objects of each source are shown; the log has all."""
WAITING_STATES = frozenset({"waiting", "missing", "forbidden", "starting"})


@dataclass(frozen=True, slots=True)
class Pulse:
    """The state of one reflector."""

    state: str
    synced: bool
    sign_age_seconds: float
    problem: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Objects that cannot be read: namespace/name -> error."""
    skipped_times: int = 0
    """How often an object was skipped, since the term began."""
    objects: int = 0
    """How many objects that belong to jobs the reflector has shown."""


@dataclass(frozen=True, slots=True)
class WatcherReport:
    """The state of the watcher."""

    leading: bool
    synced: bool
    store_away: bool = False
    writer_age_seconds: float = 0.0
    reflectors: Mapping[str, Pulse] | None = None
    unserved: frozenset[str] = frozenset()
    """Namespaces in which the operator may not list a resource that it needs."""
    sign_limit_seconds: float = SIGN_LIMIT_SECONDS
    resumed: bool = False
    """Resumed watches keep the last watcher's projection up to date until the lists are complete."""
    store_full: bool = False
    """Redis has reached maxmemory."""

    def problems(self) -> list[str]:
        """Why the watcher is not alive; [] if it is."""
        if not self.leading:
            return []
        found = []
        if self.writer_age_seconds > STEP_LIMIT_SECONDS:
            found.append(
                f"the writer has not moved for {self.writer_age_seconds:.0f} s (limit {STEP_LIMIT_SECONDS:.0f} s)"
            )
        for source, pulse in sorted((self.reflectors or {}).items()):
            if self.store_away or pulse.state in WAITING_STATES:
                # The reflector waits for room in the queue, or for the API server. Its thread is alive.
                continue
            if self._is_silent(pulse):
                found.append(
                    f"the watch of {source} has given no sign for {pulse.sign_age_seconds:.0f} s "
                    f"(limit {self.sign_limit_seconds:.0f} s)"
                )
        return found

    def _is_silent(self, pulse: Pulse) -> bool:
        return pulse.sign_age_seconds > self.sign_limit_seconds

    def body(self) -> dict[str, Any]:
        reflectors = {
            source: {
                "state": pulse.state,
                "synced": pulse.synced,
                "age_seconds": round(pulse.sign_age_seconds, 1),
                "problem": pulse.problem,
                "skipped": {
                    "objects": len(pulse.skipped),
                    "times": pulse.skipped_times,
                    "first": dict(islice(sorted(pulse.skipped.items()), SKIPPED_SHOWN)),
                },
            }
            for source, pulse in sorted((self.reflectors or {}).items())
        }
        return {
            "leading": self.leading,
            "synced": self.synced,
            "resumed": self.resumed,
            "redis_away": self.store_away,
            "redis_full": self.store_full,
            "problems": self.problems(),
            "unserved_namespaces": sorted(self.unserved),
            "reflectors": reflectors,
        }

    @property
    def ready(self) -> bool:
        """True for a standby: it could lead at any time. True for a leader if Redis answers and the projection is
        complete and recent."""
        if not self.leading:
            return True
        # A kind that is not installed or may not be listed has no watch, so its silence does not count.
        old = any(
            self._is_silent(pulse)
            for pulse in (self.reflectors or {}).values()
            if pulse.state in ("watching", "waiting")
        )
        return (self.synced or self.resumed) and not self.store_away and not old
