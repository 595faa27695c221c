"""Step machines: what controllers, scheduler and kubelets are to the driver.

A machine is single-threaded and never blocks for long: `step` does what is due and says whether it did anything;
`next_due` says when it wants to be woken though nothing has changed. `KeyedMachine` is client-go's work queue for one
thread: a key queued twice runs once, a failing key comes back with backoff. Every `reconcile` is level-triggered: it
looks at what is, not at what happened, and may run any number of times.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from typing import Protocol

from localcluster.client import ApiError

log = logging.getLogger("localcluster")

KEYS_A_STEP = 64
"""So that HTTP requests are served between the steps of a busy controller."""
RETRIES_AT_ONCE = 3
BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 60.0
_NEVER = float("inf")


class Machine(Protocol):
    name: str

    def step(self, now: float) -> bool: ...
    def next_due(self) -> float | None: ...


class Timers:
    """Keys that want to be looked at later. The earliest wish for a key wins."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._wanted: dict[str, float] = {}
        self.none_before = _NEVER
        """Nothing is due earlier: machines at rest ask for nothing more, thousands of times a second."""

    def at(self, key: str, when: float) -> None:
        have = self._wanted.get(key)
        if have is None or when < have:
            self._wanted[key] = when
            heapq.heappush(self._heap, (when, key))
            self.none_before = self._heap[0][0]

    def drop(self, key: str) -> None:
        self._wanted.pop(key, None)

    def due(self, now: float) -> list[str]:
        keys = []
        while self._heap and self._heap[0][0] <= now:
            when, key = heapq.heappop(self._heap)
            if self._wanted.get(key) == when:
                del self._wanted[key]
                keys.append(key)
        self.none_before = self._heap[0][0] if self._heap else _NEVER
        return keys

    def next_due(self) -> float | None:
        while self._heap and self._wanted.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None


class KeyedMachine:
    """Subclasses give `name` and `reconcile(key, now)`; `fresh` takes in the caches before each key, so that what this
    process has just written is seen (it takes the place of client-go's expectations)."""

    name = "machine"

    def __init__(self, fresh: Callable[[], bool] = lambda: False) -> None:
        self._ready: dict[str, None] = {}
        self._timers = Timers()
        self._failures: dict[str, int] = {}
        self._fresh = fresh

    def enqueue(self, key: str) -> None:
        self._ready[key] = None

    def enqueue_at(self, key: str, when: float) -> None:
        self._timers.at(key, when)

    def reconcile(self, key: str, now: float) -> None:
        raise NotImplementedError

    def step(self, now: float) -> bool:
        if now >= self._timers.none_before:
            for key in self._timers.due(now):
                self._ready[key] = None
        if not self._ready:
            return False
        done = 0
        while self._ready and done < KEYS_A_STEP:
            key = next(iter(self._ready))
            del self._ready[key]
            done += 1
            self._fresh()
            self._run(key, now)
        return done > 0

    def next_due(self) -> float | None:
        if self._ready:
            return 0.0
        return None if self._timers.none_before == _NEVER else self._timers.next_due()

    def _run(self, key: str, now: float) -> None:
        try:
            self.reconcile(key, now)
        except ApiError as error:
            self._failed(key, now, error)
        except Exception:
            log.exception("%s: reconcile of %s failed", self.name, key)
            self._failed(key, now, None)
        else:
            self._failures.pop(key, None)

    def _failed(self, key: str, now: float, error: ApiError | None) -> None:
        times = self._failures[key] = self._failures.get(key, 0) + 1
        stale = error is not None and error.code in (404, 409)
        if stale and times <= RETRIES_AT_ONCE:
            self.enqueue(key)
            return
        if error is not None and times in (1, 10, 100):
            log.info("%s: %s: %s (%d times)", self.name, key, error, times)
        self.enqueue_at(key, now + min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2 ** min(times, 20)))
