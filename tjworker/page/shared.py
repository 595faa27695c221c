"""A value that is read from a store for all who ask at the same time, in a thread of its own.

A store that is silent holds up this one thread. A caller is answered within WAIT_SECONDS of the beginning of the
reading, with the value or with an error, and can show what was read before.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from tjworker.base import Transient

T = TypeVar("T")
WAIT_SECONDS = 2.0


class Shared(Generic[T]):
    """Thread-safe."""

    def __init__(self, read: Callable[[], T], store: str, *, wait_seconds: float = WAIT_SECONDS) -> None:
        """`read` may raise OperatorError. `store` begins the sentence about its silence."""
        self._read = read
        self._store = store
        self._wait_seconds = wait_seconds
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "read")
        self._under_way: Future[T] | None = None
        self._began = 0.0

    def begin(self) -> Future[T]:
        """The reading that is under way, or a new one."""
        with self._lock:
            if self._under_way is None or self._under_way.done():
                self._began = time.monotonic()
                self._under_way = self._thread.submit(self._read)
            return self._under_way

    def wait(self) -> T:
        """The value. Raises the OperatorError of the reading, or Transient if it takes too long."""
        reading = self.begin()
        try:
            return reading.result(self._left_seconds())
        except TimeoutError:
            raise self._silence() from None

    async def arrive(self) -> T:
        """The same as `wait`, without a thread that waits."""
        reading = asyncio.wrap_future(self.begin())
        try:
            # Shielded: the reading goes on for the others.
            return await asyncio.wait_for(asyncio.shield(reading), self._left_seconds())
        except TimeoutError:
            raise self._silence() from None

    def _left_seconds(self) -> float:
        return max(0.0, self._began + self._wait_seconds - time.monotonic())

    def _silence(self) -> Transient:
        seconds = time.monotonic() - self._began
        return Transient(f"{self._store} has not answered for {seconds:.0f} s; trying again")
