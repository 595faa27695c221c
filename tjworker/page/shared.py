"""A value that is read from a store for all who ask at the same time, in a thread of its own.

A store that is silent holds up this one thread. A caller is answered within WAIT_SECONDS of the beginning of the
reading, with the value or with an error, and can show what was read before. Until there is a value, callers wait for up
to FIRST_SECONDS.
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
WAIT_SECONDS, FIRST_SECONDS = 2.0, 10.0


class Shared(Generic[T]):
    """Thread-safe."""

    def __init__(
        self,
        read: Callable[[], T],
        store: str,
        *,
        wait_seconds: float = WAIT_SECONDS,
        first_seconds: float = FIRST_SECONDS,
    ) -> None:
        """`read` may raise OperatorError. `store` begins the sentence about its silence."""
        self._read = read
        self._store = store
        self._wait_seconds = wait_seconds
        self._first_seconds = first_seconds
        self._has_read = False
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "read")
        self._under_way: Future[T] | None = None
        self._began = 0.0

    def begin(self) -> Future[T]:
        """The reading that is under way, or a new one."""
        with self._lock:
            if self._under_way is None or self._under_way.done():
                self._began = time.monotonic()
                self._under_way = self._thread.submit(self._read_once)
            return self._under_way

    def _read_once(self) -> T:
        value = self._read()
        self._has_read = True
        return value

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
        # asyncio reports each failure that no caller reads, also of a reading that this caller has given up.
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        # `wait` cancels nothing: the reading goes on for the others.
        await asyncio.wait([reading], timeout=self._left_seconds())
        if not reading.done():
            raise self._silence()
        return reading.result()

    def _left_seconds(self) -> float:
        return max(0.0, self._began + self._longest_seconds - time.monotonic())

    @property
    def _longest_seconds(self) -> float:
        return self._wait_seconds if self._has_read else self._first_seconds

    def _silence(self) -> Transient:
        # Always the same words: a stream of changes sends words that differ.
        return Transient(f"{self._store} has not answered within {self._longest_seconds:g} s; trying again")
