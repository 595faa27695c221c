"""Celery's scheduler, with a report of whether it ticks. The app selects it with the setting `beat_scheduler`.

The tasks and their times remain Celery's. Beat has a thread for probes and a thread for metrics, which only read. Its
main thread ticks and sets the times.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from celery.beat import Scheduler as CeleryScheduler
from celery.signals import beat_init

from tjworker.settings import load_settings
from tjworker.telemetry import scrape
from tjworker.telemetry.health import open_health
from tjworker.telemetry.metrics import BEAT_SENT, BEAT_TICK, Sample
from tjworker.telemetry.redis_outage import RedisOutage

TICK_LIMIT_SECONDS = 60.0
"""Beat ticks at least every 5 s (`beat_max_loop_interval`). While Redis is silent, a tick takes up to 22 s: two tries,
each with the time-outs of connecting and sending (`app.transport_options`)."""
RECONNECT_MOST_SECONDS = 1.0
SEND_AGAIN_SECONDS = 1.0
CELERYS_LOGGERS = ("celery.beat", "kombu.transport.redis", "kombu.transport.virtual.base", "kombu.connection")


class Scheduler(CeleryScheduler):  # type: ignore[misc,unused-ignore]
    """`now` is monotonic, in seconds."""

    now: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self, *args: Any, **options: Any) -> None:
        self.sign_at = self.now()
        """When beat last ticked, or tried to reach Redis."""
        self.worked_at = time.time()
        """When beat last ticked and Redis took the tasks that were due, in Unix seconds."""
        self.sends = False
        """The last task could be sent."""
        self._unsent: dict[str, Any] = {}
        """Name -> entry of each periodic task that could not be sent when it was due. Celery would wait for its next
        period: 30 s without a resync after Redis is back."""
        self._again_at = 0.0
        self._outage = RedisOutage(CELERYS_LOGGERS, self.now)
        super().__init__(*args, **options)

    def tick(self, *args: Any, **options: Any) -> Any:
        wait = super().tick(*args, **options)
        if self._unsent:
            wait = min(wait, self._send_again())
        self.sign_at = self.now()
        # The metric must grow old while Redis is away: beat is alive then, but no worker gets its tasks.
        if self.sends:
            self.worked_at = time.time()
        return wait

    def _send_again(self) -> float:
        """Try one unsent task, SEND_AGAIN_SECONDS after the last failure. Returns the seconds until the next try."""
        if self.now() >= self._again_at:
            # A task that fails again goes to the end of `_unsent`.
            self.apply_entry(self._unsent.pop(next(iter(self._unsent))), producer=self.producer)
        return max(0.0, self._again_at - self.now())

    def apply_async(self, entry: Any, *args: Any, **options: Any) -> Any:
        self.sends = False
        try:
            result = super().apply_async(entry, *args, **options)
        except Exception as error:
            # One log line for the outage. Celery would log a traceback for each task, each time that it is due.
            self._outage.fails(error)
            self._unsent[entry.name] = entry
            self._again_at = self.now() + SEND_AGAIN_SECONDS
            raise
        self._outage.works()
        self._unsent.pop(entry.name, None)
        self.sends = True
        BEAT_SENT.inc(task=entry.name)
        return result

    def _ensure_connected(self) -> Any:
        """Connect, however long it takes, as Celery does. Each try counts as a sign of life, and waits are short."""
        self.sends = False
        return self.connection.ensure_connection(self._is_away, None, interval_max=RECONNECT_MOST_SECONDS)

    def _is_away(self, error: Exception, seconds: float) -> None:
        self.sign_at = self.now()
        self._outage.fails(error)

    def report(self) -> BeatReport:
        return BeatReport(self.now() - self.sign_at, self.sends)

    def samples(self) -> list[Sample]:
        return [(BEAT_TICK, {}, self.worked_at)]


@dataclass(frozen=True, slots=True)
class BeatReport:
    """The state of beat."""

    sign_age_seconds: float
    sends: bool

    def problems(self) -> list[str]:
        if self.sign_age_seconds <= TICK_LIMIT_SECONDS:
            return []
        return [f"beat has not ticked for {self.sign_age_seconds:.0f} s (limit {TICK_LIMIT_SECONDS:.0f} s)"]

    @property
    def ready(self) -> bool:
        """True if beat ticks and Redis takes its tasks."""
        return self.sends and not self.problems()

    def body(self) -> dict[str, Any]:
        return {"sends": self.sends, "tick_age_seconds": round(self.sign_age_seconds, 1), "problems": self.problems()}


def leave_at_signals(leave: Callable[[int], object]) -> None:
    """Make SIGTERM and SIGINT end the process at once, by `leave(0)`. Beat keeps no state: the next beat sends a task
    that this one has not sent."""
    # Celery would raise SystemExit in whatever the main thread does. A call of a silent Redis catches it and reports it
    # as one more error of the call, and beat runs on until it is killed.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: leave(0))


@beat_init.connect  # type: ignore[untyped-decorator,unused-ignore]
def _open(sender: Any, **_: Any) -> None:
    """Celery sends this signal only from the command `celery beat`, which owns its process."""
    leave_at_signals(os._exit)
    settings, scheduler = load_settings(), sender.scheduler
    if isinstance(scheduler, Scheduler):
        try:
            open_health(settings, scheduler.report)
        except OSError:
            raise SystemExit(2) from None
        scrape.serve(settings, scheduler.samples)
