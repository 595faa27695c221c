"""When the reflector may ask the API server again. PURE: times and outcomes in, seconds to wait out; randomness is
injected.

Two promises. Failures are answered with exponential backoff and jitter, 1 s to 30 s, or with the wait that the server
named. A list, the one expensive request, is not tried twice within 30 s unless the server has lived in between (it
answered a cheap probe after it had not answered) or has itself named a shorter wait.
"""

from __future__ import annotations

import random

FIRST_SECONDS = 1.0
LONGEST_SECONDS = 30.0


class ListBackoff:
    def __init__(self, rng: random.Random, *, longest_seconds: float = LONGEST_SECONDS) -> None:
        """`longest_seconds` between two tries, and between two lists; twice that for a kind that is not installed."""
        self._rng = rng
        self._first_seconds = min(FIRST_SECONDS, longest_seconds)
        self._longest_seconds = longest_seconds
        self._failures = 0
        self._last_list_at: float | None = None
        self._failed_list: tuple[int, float | None] | None = None
        """(status, the wait that the server named); status 0: no answer came."""
        self._told_until = 0.0

    # -- any request -------------------------------------------------------------------------------

    def works(self) -> None:
        """Something came through: the next failure is a first one."""
        self._failures = 0

    def backoff(self, *, missing: bool = False) -> float:
        """Seconds to wait after one more failure: half to all of 1, 2, 4 ... s, so that watchers do not come in
        step. `missing`: the kind is not installed."""
        limit = self._longest_seconds * (2 if missing else 1)
        full = min(limit, self._first_seconds * float(1 << min(self._failures, 16)))
        self._failures += 1
        return max(self._first_seconds, full * self._rng.uniform(0.5, 1.0))

    def told(self, seconds: float, now: float) -> float:
        """Seconds to wait when the server named them: at least that, a little spread."""
        wait = seconds * self._rng.uniform(1.0, 1.1)
        self._told_until = now + seconds
        return wait

    # -- lists -------------------------------------------------------------------------------------

    def list_starts(self, now: float) -> None:
        self._last_list_at = now
        self._failed_list = None

    def list_failed(self, status: int, retry_after_seconds: float | None = None) -> None:
        self._failed_list = status, retry_after_seconds

    def lists_freely(self) -> None:
        """The next list is no second try: the last one got a clear answer (not installed, forbidden), or a new one is
        asked for from our own side."""
        self._last_list_at = None
        self._failed_list = None

    def wants_probe(self, now: float) -> bool:
        """Whether a probe decides if a list may be tried now: the last one got no answer, and not long ago."""
        return self._failed_list is not None and self._failed_list[0] == 0 and self._too_soon(now)

    def before_list(self, now: float, *, lives: bool = False) -> float:
        """Seconds to wait before a list may start, 0 for at once. `lives`: a probe has just been answered."""
        failed = self._failed_list
        if self._last_list_at is None or not self._too_soon(now):
            return 0.0
        if failed is not None and failed[1] is not None:
            return max(0.0, self._told_until - now)
        if failed is not None and failed[0] == 0:
            return 0.0 if lives else self.backoff()
        return self._last_list_at + self._longest_seconds - now

    def _too_soon(self, now: float) -> bool:
        return self._last_list_at is not None and now < self._last_list_at + self._longest_seconds
