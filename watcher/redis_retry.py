"""Repeats a call until Redis answers. Nothing is lost, since every call may be repeated. An outage is logged once, and
so is its end. If Redis is full, it refuses the call: then writes that free memory are made before the next attempt.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import structlog

from tjworker.base import REDIS_FULL, Terminal, Transient, backoff_seconds

log = structlog.get_logger(__name__)
T = TypeVar("T")

FIRST_WAIT_SECONDS = 0.2
LONGEST_WAIT_SECONDS = 1.0


class Stopped(Exception):
    """The term ended while a call waited for Redis."""


class RedisRetry:
    def __init__(
        self,
        stopped: threading.Event,
        now: Callable[[], float],
        rng: random.Random | None = None,
        *,
        on_refused: Callable[[], object] = lambda: None,
        make_room: Callable[[], object] = lambda: None,
    ) -> None:
        """`on_refused` is called if Redis answers but refuses the command; `make_room` before each further attempt
        while Redis is full. `make_room` may raise like a call."""
        self._stopped = stopped
        self._now = now
        self._rng = rng or random.Random()
        self._on_refused = on_refused
        self._make_room = make_room
        self.away = False
        self.tried_at = now()
        self.full = False
        """Redis has reached maxmemory and refuses the call."""

    def __call__(self, call: Callable[[], T]) -> T:
        """Return what `call` returns once Redis answers. Raises Stopped, Lost, Fenced."""
        waits, since = 0, None
        while True:
            self.tried_at = self._now()
            try:
                answer = call()
            except (Transient, Terminal) as error:
                if since is None:
                    since = self._now()
                    self.away = True
                    log.warning("Redis cannot be used, waiting; nothing is lost", error=error.message)
                self.full = error.reason == REDIS_FULL
                if isinstance(error, Terminal):
                    self._on_refused()
                if self.full:
                    # If this fails as well, the next attempt of the call will say why.
                    with suppress(Transient, Terminal):
                        self._make_room()
                wait_seconds = backoff_seconds(waits, FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS)
                if self._stopped.wait(wait_seconds * self._rng.uniform(0.5, 1.0)):
                    raise Stopped from error
                waits += 1
                continue
            except BaseException:
                # Lost and Fenced are answers, too, often the first ones of a Redis that comes back.
                self._note_answer(since)
                raise
            self._note_answer(since)
            return answer

    def _note_answer(self, since: float | None) -> None:
        if since is not None:
            self.away = self.full = False
            log.info("Redis answers again", away_seconds=round(self._now() - since, 1))
