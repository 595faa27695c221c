"""When the reflector may ask the API server again. Pure: times and outcomes in, seconds to wait out; randomness is
injected.

Failures lead to an exponential backoff with jitter, 1 s to 30 s, or to the wait that the server asked for. A list is
expensive, and an API server that is coming up can fail under it. So it is not tried twice within 30 s, unless the
server answered a cheap probe in between or asked for a shorter wait itself.
"""

from __future__ import annotations

import random

from tjworker.base import backoff_seconds

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
        """(status, the wait that the server asked for); status 0: no answer came."""
        self._asked_until = 0.0

    # -- any request -------------------------------------------------------------------------------

    def reset(self) -> None:
        """A request succeeded: the next failure is a first one."""
        self._failures = 0

    def backoff(self, *, missing: bool = False) -> float:
        """Seconds to wait after one more failure: half to all of 1, 2, 4 ... s. `missing`: the kind is not
        installed."""
        limit = self._longest_seconds * (2 if missing else 1)
        full = backoff_seconds(self._failures, self._first_seconds, limit)
        self._failures += 1
        # The jitter keeps all reflectors, which failed together, from returning together.
        return max(self._first_seconds, full * self._rng.uniform(0.5, 1.0))

    def wait_as_asked(self, seconds: float, now: float) -> float:
        """Seconds to wait after the server asked for `seconds`: never less, and up to a tenth more."""
        wait = seconds * self._rng.uniform(1.0, 1.1)
        self._asked_until = now + seconds
        return wait

    # -- lists -------------------------------------------------------------------------------------

    def list_starts(self, now: float) -> None:
        self._last_list_at = now
        self._failed_list = None

    def list_failed(self, status: int, retry_after_seconds: float | None = None) -> None:
        self._failed_list = status, retry_after_seconds

    def allow_list(self) -> None:
        """Let the next list begin at once: the last one got a clear and cheap answer (not installed, forbidden)."""
        self._last_list_at = None
        self._failed_list = None

    def wants_probe(self, now: float) -> bool:
        """True if a probe decides whether a list may be tried now: the last one got no answer a short time ago."""
        return self._failed_list is not None and self._failed_list[0] == 0 and self._too_soon(now)

    def before_list(self, now: float, *, answers: bool = False) -> float:
        """Seconds to wait before a list may start; 0: at once. `answers`: the server has just answered a probe."""
        failed = self._failed_list
        if self._last_list_at is None or not self._too_soon(now):
            return 0.0
        if failed is not None and failed[1] is not None:
            return max(0.0, self._asked_until - now)
        if failed is not None and failed[0] == 0:
            # The server was away. Once it answers a probe, a list may begin at once.
            return 0.0 if answers else self.backoff()
        # The server answered with an error, or the list broke off: each try costs it the whole list.
        return self._last_list_at + self._longest_seconds - now

    def _too_soon(self, now: float) -> bool:
        return self._last_list_at is not None and now < self._last_list_at + self._longest_seconds
