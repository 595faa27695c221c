"""Threads that nobody queues for: who finds none free does the work himself.

A queue before a pool makes everybody wait for the slowest, and what begins late was decided long ago.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Thread-safe. Owns threads, so make it after the fork."""

    def __init__(self, most: int, name: str) -> None:
        """`most` 1: none, as the caller is one already."""
        self._most = most if most > 1 else 0
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)  # starts them as they are needed
        self._lock = threading.Lock()
        self._under_way: list[Future[object]] = []

    def begin(self, work: Callable[[], T]) -> Future[T] | None:
        """At once, in another thread; None where none is free."""
        # No semaphore: the soft limit of time may cut the caller off anywhere, and a permit would be lost with it.
        with self._lock:
            if len(self._under_way) >= self._most:
                self._under_way = [other for other in self._under_way if not other.done()]
            if len(self._under_way) >= self._most:
                return None
            begun = self._pool.submit(work)
            self._under_way.append(begun)  # type: ignore[arg-type]
            return begun
