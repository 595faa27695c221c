"""The time on which decisions rest: the same in every process, whatever the machine's clock shows.

It is Redis' time. A process reads it with each claim of keys, and extrapolates it with its monotonic clock. The API
server's `Date` checks it. If the two differ, the earlier time counts: ending a job late does less harm than ending it
early. The `Date` must be recent: a monotonic clock does not count the time for which a machine sleeps, so an old `Date`
would be hours behind. The local wall clock serves only for log lines before the first reading; its error is reported.

Thread-safe. Does no I/O except `ask_date`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import structlog

log = structlog.get_logger(__name__)

TOLERANCE_SECONDS = 5.0
"""Clocks that differ by less agree: `Date` has whole seconds, and an answer takes a while to arrive."""
DATE_PERIOD_SECONDS = 10.0
"""Between two readings of `Date`: parsing one takes longer than the rest of a small answer."""
DATE_LASTS_SECONDS = 600.0
"""An older `Date` is read again before it is used: clocks drift, and some are corrected."""
REPORT_PERIOD_SECONDS = 600.0
"""Between two log lines about the same clock."""


@dataclass(frozen=True, slots=True)
class Offsets:
    """How far each clock is ahead of the time that counts, in seconds; None while unknown."""

    process: float | None = None
    """The wall clock of this process' machine."""
    redis: float | None = None
    api_server: float | None = None


class ClusterClock:
    """One per process."""

    def __init__(
        self,
        *,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        wrong: Callable[[str], None] = lambda clock: None,
        ask_date: Callable[[], object] = lambda: None,
    ) -> None:
        """`wrong` is called with `process`, `redis` or `api_server` each time the log names that clock. `ask_date`
        makes the API server answer anything, so that `see_date` is called. It must not raise while the API server is
        away."""
        self._wall = wall
        self.monotonic = monotonic
        """The monotonic clock of this process, in seconds: for time-outs and intervals."""
        self._wrong = wrong
        self._ask_date = ask_date
        # Each is the difference between a clock and this process' monotonic clock.
        self._redis: float | None = None
        self._api_server: float | None = None
        self._date_due = 0.0
        self._ask_due = 0.0
        self._date_expires = 0.0
        self._report_due = 0.0

    def __call__(self) -> float:
        """The time that counts, in Unix seconds."""
        offset = self._offset()
        return self._wall() if offset is None else self.monotonic() + offset

    def see_redis(self, seconds: float) -> None:
        """Take Redis' time, in Unix seconds, from an answer that has just arrived. Asks for a `Date` if the last one is
        too old to check it."""
        now = self.monotonic()
        before, self._redis = self._redis, seconds - now
        if before is not None and abs(self._redis - before) > TOLERANCE_SECONDS:
            # Redis' clock was set, another machine has become Redis, or this machine has slept. Only a new Date can
            # show whether Redis is right.
            self._date_due = self._ask_due = self._date_expires = 0.0
        if now >= max(self._date_expires, self._ask_due):
            self._ask_due = now + DATE_PERIOD_SECONDS
            self._ask_date()
        self._report()

    def see_date(self, header: str) -> None:
        """Take the `Date` header of an answer that has just arrived; '' if it has none. An invalid one is ignored."""
        now = self.monotonic()
        if not header or now < self._date_due:
            return
        self._date_due = now + DATE_PERIOD_SECONDS
        try:
            # The header has whole seconds, so assume the middle of its second.
            self._api_server = parsedate_to_datetime(header).timestamp() + 0.5 - now
            self._date_expires = now + DATE_LASTS_SECONDS
        except (ValueError, TypeError, OverflowError):
            return

    def offsets(self) -> Offsets:
        """The offsets of the clocks that have been read."""
        right = self._offset()
        if right is None:
            return Offsets()
        return Offsets(
            process=self._wall() - self.monotonic() - right,
            redis=None if self._redis is None else self._redis - right,
            api_server=None if self._api_server is None else self._api_server - right,
        )

    def _offset(self) -> float | None:
        """The time that counts minus the monotonic clock; None before the first reading."""
        redis, api_server = self._redis, self._api_server
        if redis is None or (api_server is not None and redis - api_server > TOLERANCE_SECONDS):
            return api_server
        return redis

    def _report(self) -> None:
        """Log clocks that are wrong, at most every REPORT_PERIOD_SECONDS."""
        now = self.monotonic()
        if now < self._report_due:
            return
        off = self.offsets()
        wrong = {
            name: round(seconds, 1)
            for name, seconds in (("process", off.process), ("redis", off.redis), ("api_server", off.api_server))
            if seconds is not None and abs(seconds) > TOLERANCE_SECONDS
        }
        if wrong:
            self._report_due = now + REPORT_PERIOD_SECONDS
            ahead = {f"{name}_ahead_seconds": seconds for name, seconds in wrong.items()}
            log.warning("a clock is wrong: run NTP on that machine; time limits do not rest on it", **ahead)
            for name in wrong:
                self._wrong(name)
