"""The passes of one task: beside each other, so that one that waits keeps none of the others, and released together.

Decides nothing about jobs. A pass that hangs keeps the task, and no other pass: none queues for another's thread, here
or in the executor, and those that have ended are released GATHER_SECONDS later at the latest. A pass that kills the
process takes those along that have not been released; their leases lapse, and the work queue gives each of them out
alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import structlog
from celery.exceptions import SoftTimeLimitExceeded

T = TypeVar("T")

log = structlog.get_logger(__name__)

GATHER_SECONDS = 0.02
"""One that has ended waits at most for so long for the others."""


class Beside(Generic[T]):
    """One a process; owns threads, so make it after the fork. Tasks that run in threads of one process (Celery's pool
    `threads`) share none of them: one whose passes hang keeps no other's from beginning."""

    def __init__(self, width: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`width` 1: one after another, in the caller's thread, for tests and simulations."""
        self._width = width
        self._of_caller = threading.local()
        self._monotonic = monotonic

    def run(
        self, passes: Sequence[Callable[[], T]], release: Callable[[Sequence[T]], None], over: Sequence[T] = ()
    ) -> None:
        """Each pass, and `release` with all that have ended, `over` among them, as often as need be. Neither may raise
        for a fault of one job. What `release` raises is raised once every pass has ended and was given to it."""
        if self._width == 1 or len(passes) + len(over) == 1:
            self._one_after_another(passes, release, over)
        else:
            self._together(passes, release, over)

    def _pool(self) -> ThreadPoolExecutor:
        """Ends with the thread of its tasks."""
        pool: ThreadPoolExecutor | None = getattr(self._of_caller, "pool", None)
        if pool is None:
            pool = self._of_caller.pool = ThreadPoolExecutor(self._width, thread_name_prefix="pass")
        return pool

    def _one_after_another(
        self, passes: Sequence[Callable[[], T]], release: Callable[[Sequence[T]], None], over: Sequence[T]
    ) -> None:
        ended = list(over)
        since = self._monotonic()
        for work in passes:
            ended.append(work())
            if self._monotonic() - since >= GATHER_SECONDS:
                release(ended)
                ended, since = [], self._monotonic()
        if ended:
            release(ended)

    def _together(
        self, passes: Sequence[Callable[[], T]], release: Callable[[Sequence[T]], None], over: Sequence[T]
    ) -> None:
        left = len(passes)
        ended = deque(over)
        broken: list[BaseException] = []
        done = threading.Event()
        counting = threading.Lock()

        def one(work: Callable[[], T]) -> None:
            nonlocal left
            try:
                ended.append(work())
            except BaseException as error:  # noqa: BLE001  raised in the caller's thread
                broken.append(error)
            finally:
                with counting:
                    left -= 1
                    if left == 0:
                        done.set()

        for work in passes:
            self._pool().submit(one, work)
        if not passes:
            done.set()
        while not (done.is_set() and not ended):
            try:
                done.wait(GATHER_SECONDS)
                _release_all(ended, release, broken)
            except SoftTimeLimitExceeded:
                # The threads cannot be stopped; each looks at the time where it renews its lease. What they have not
                # done by the hard limit dies with this process, and comes back alone.
                log.warning("some passes of a task take long; the others have been released", passes=left)
        if broken:
            raise broken[0]


def _release_all(ended: deque[T], release: Callable[[Sequence[T]], None], broken: list[BaseException]) -> None:
    together = list(ended)
    if not together:
        return
    try:
        release(together)
    except SoftTimeLimitExceeded:
        raise  # again, with the same
    except Exception as error:  # noqa: BLE001  raised in the end
        broken.append(error)
    for _ in together:
        ended.popleft()
