"""What the watcher's /healthz and /readyz say. PURE.

Alive says that each watch has given a sign within the limit. A watcher that waits (for the leadership, for an API
server or a Redis that is away) is alive, as a restart would cure nothing; it is not ready, as the projection grows old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

SIGN_LIMIT_SECONDS = 90.0
"""By default. A watch is opened again after `watch_timeout_seconds` (60 s) of silence, and two requests may be without
an answer."""
STEP_LIMIT_SECONDS = 180.0
SKIPPED_SHOWN = 10
"""Of each source; the log has them all."""
WAITING_STATES = frozenset({"waiting", "missing", "forbidden", "starting"})


@dataclass(frozen=True, slots=True)
class Pulse:
    """One reflector, at one moment."""

    state: str
    synced: bool
    sign_age_seconds: float
    problem: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Objects that cannot be read: namespace/name -> error."""
    skipped_times: int = 0
    """How often an object was skipped, since the term began."""
    objects: int = 0
    """Of jobs, as it has shown them."""


@dataclass(frozen=True, slots=True)
class Report:
    """The watcher, at one moment."""

    leading: bool
    synced: bool
    store_away: bool = False
    writer_age_seconds: float = 0.0
    reflectors: Mapping[str, Pulse] | None = None
    unserved: frozenset[str] = frozenset()
    """Namespaces of which something that is needed may not be listed."""
    sign_limit_seconds: float = SIGN_LIMIT_SECONDS
    resumed: bool = False
    """What the last watcher had projected is kept up to date, while the lists come."""
    store_full: bool = False
    """Redis has reached maxmemory."""

    def problems(self) -> list[str]:
        """Why it is not alive."""
        if not self.leading:
            return []
        found = []
        if self.writer_age_seconds > STEP_LIMIT_SECONDS:
            found.append(
                f"the writer has not moved for {self.writer_age_seconds:.0f} s (limit {STEP_LIMIT_SECONDS:.0f} s)"
            )
        for source, pulse in sorted((self.reflectors or {}).items()):
            if self.store_away or pulse.state in WAITING_STATES:
                # Reflectors wait for room in the queue, or for the API server: with their threads, not dead.
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
        """A standby is ready: it could lead at any time."""
        if not self.leading:
            return True
        # Of a kind that is not installed, and where nothing may be listed, there is nothing to show.
        old = any(
            self._is_silent(one) for one in (self.reflectors or {}).values() if one.state in ("watching", "waiting")
        )
        return (self.synced or self.resumed) and not self.store_away and not old
