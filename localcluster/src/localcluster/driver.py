"""Runs step machines: in virtual time for tests, on the asyncio loop of the API server, or in a thread of its own.

All three make the same rounds: take in the caches, step every machine, until a round does nothing. A driver never
decides anything and can be stopped between any two rounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol

from localcluster.informer import Informers
from localcluster.machine import Machine

log = logging.getLogger("localcluster")

MAX_ROUNDS = 200_000
LONGEST_SLEEP_SECONDS = 60.0
RETRY_LIST_SECONDS = 1.0
REST_AFTER_FAILURE_SECONDS = 1.0


class Ticker(Protocol):
    """The part of the API server that keeps time (timeouts of watches, bookmarks, compaction)."""

    def tick(self) -> object: ...
    def next_due(self) -> float | None: ...


class NotIdleError(RuntimeError):
    """Machines keep each other busy: a livelock."""


class VirtualClock:
    """Unix seconds that only the driver moves."""

    def __init__(self, start_seconds: float = 1_767_225_600.0) -> None:
        self.now_seconds = start_seconds

    def __call__(self) -> float:
        return self.now_seconds


class Rounds:
    """What the three drivers share."""

    def __init__(
        self,
        informers: Sequence[Informers],
        machines: Sequence[Machine],
        clock: Callable[[], float],
        ticker: Ticker | None = None,
    ) -> None:
        self.informers = list(informers)
        self.machines = list(machines)
        self.clock = clock
        self.ticker = ticker

    def round(self) -> list[str]:
        """One round; the names of those that did something."""
        busy = []
        for informers in self.informers:
            if informers.pump():
                busy.append("informers")
        return busy + self._step_all(self.clock())

    def _step_all(self, now: float) -> list[str]:
        return [machine.name for machine in self.machines if machine.step(now)]

    def next_due(self) -> float | None:
        dues = [due for machine in self.machines if (due := machine.next_due()) is not None]
        if self.ticker is not None and (due := self.ticker.next_due()) is not None:
            dues.append(due)
        if any(informers.failing for informers in self.informers):
            dues.append(self.clock() + RETRY_LIST_SECONDS)
        return min(dues, default=None)


class VirtualDriver(Rounds):
    """Deterministic: no thread, no sleep; the clock is a VirtualClock."""

    clock: VirtualClock

    def run_until_idle(self) -> None:
        """Raises NotIdleError with the names of those that never came to rest."""
        if self.ticker is not None:
            self.ticker.tick()
        for _ in range(MAX_ROUNDS):
            if not (busy := self.round()):
                return
        raise NotIdleError(f"still busy after {MAX_ROUNDS} rounds at {self.clock()}: {', '.join(sorted(set(busy)))}")

    def advance(self, seconds: float) -> None:
        """Lets virtual time pass, doing at its time whatever falls due."""
        target = self.clock() + seconds
        self.run_until_idle()
        while (due := self.next_due()) is not None and due <= target:
            self.clock.now_seconds = max(due, self.clock())
            self.run_until_idle()
        if self.clock() < target:
            self.clock.now_seconds = target
            self.run_until_idle()


class RealTimeRounds(Rounds):
    """A machine that raises is left out for a second and logged: one bug must not stop the whole cluster. (In virtual
    time it is raised, so that tests see it.)"""

    def __init__(
        self,
        informers: Sequence[Informers],
        machines: Sequence[Machine],
        clock: Callable[[], float] = time.time,
        ticker: Ticker | None = None,
    ) -> None:
        super().__init__(informers, machines, clock, ticker)
        for each in informers:
            each.wake = self.wake
        self._resting: dict[int, float] = {}

    def wake(self) -> None:
        """May be called from any thread."""
        raise NotImplementedError

    def _step_all(self, now: float) -> list[str]:
        return [machine.name for machine in self.machines if self._step(machine, now)]

    def _step(self, machine: Machine, now: float) -> bool:
        if now < self._resting.get(id(machine), 0.0):
            return False
        try:
            return machine.step(now)
        except Exception:
            log.exception("%s failed; it is stepped again in %g s", machine.name, REST_AFTER_FAILURE_SECONDS)
            self._resting[id(machine)] = now + REST_AFTER_FAILURE_SECONDS
            return False

    def next_due(self) -> float | None:
        now = self.clock()
        resting = {k: until for k, until in self._resting.items() if until > now}
        self._resting = resting
        if not resting:
            return super().next_due()
        dues = [due for m in self.machines if id(m) not in resting and (due := m.next_due()) is not None]
        return min([*dues, *resting.values()])

    def pause_seconds(self) -> float:
        due = self.next_due()
        return LONGEST_SLEEP_SECONDS if due is None else min(LONGEST_SLEEP_SECONDS, max(0.0, due - self.clock()))


class AsyncDriver(RealTimeRounds):
    """Runs on the event loop that serves the API, which makes one thread of both. `wake` may be called from any
    thread."""

    _loop: asyncio.AbstractEventLoop | None = None
    _thread_id = 0

    @cached_property
    def _woken(self) -> asyncio.Event:
        return asyncio.Event()

    def wake(self) -> None:
        if threading.get_ident() == self._thread_id:
            self._woken.set()
        elif self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: there is nothing to wake
                self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Until cancelled."""
        self._loop = asyncio.get_running_loop()
        # A wake-up from this thread needs no write to the loop's self-pipe.
        self._thread_id = threading.get_ident()
        while True:
            self._woken.clear()
            if self.ticker is not None:
                self.ticker.tick()
            while self.round():
                # The loop answers requests between two rounds, so that busy controllers do not block clients.
                await asyncio.sleep(0)
            pause = self.pause_seconds()
            if pause > 0:
                try:
                    # Not wait_for: in Python 3.11 it swallows a cancellation that meets its wake-up.
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                except TimeoutError:
                    continue


class ThreadDriver(RealTimeRounds):
    """Runs in the calling thread until `stop`; for kubelets against a control plane of their own process."""

    _stopped = False

    @cached_property
    def _woken(self) -> threading.Event:
        return threading.Event()

    def wake(self) -> None:
        self._woken.set()

    def stop(self) -> None:
        self._stopped = True
        self._woken.set()

    def run(self) -> None:
        while not self._stopped:
            self._woken.clear()
            while self.round() and not self._stopped:
                pass
            if (pause := self.pause_seconds()) > 0 and not self._stopped:
                self._woken.wait(pause)
