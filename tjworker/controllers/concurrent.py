"""Runs the passes of one task concurrently: 44 passes a second instead of 26, if a write takes 5 ms.

A pass that hangs does not block the others. Passes that end within GATHER_SECONDS of each other are released together.
No pass waits for a thread of another pass, here or in the executor. A pass that kills the process takes the unreleased
ones with it: their leases lapse, and the work queue then gives each of their keys out alone.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import structlog
from celery.exceptions import SoftTimeLimitExceeded

T = TypeVar("T")
"""How a pass ended."""

log = structlog.get_logger(__name__)

GATHER_SECONDS = 0.02
"""How long an ended pass waits at most to be released together with others."""


class ConcurrentPasses(Generic[T]):
    """One per process. Owns threads, so create it after the fork.

    Tasks that run in threads of one process (Celery's pool `threads`) share no threads: a task whose passes hang cannot
    keep the passes of another from starting."""

    def __init__(self, width: int) -> None:
        """`width`: the most passes of one task."""
        self._width = width
        self._of_caller = threading.local()

    def run(
        self, passes: Sequence[Callable[[], T]], release: Callable[[Sequence[T]], None], ended: Sequence[T] = ()
    ) -> None:
        """Run each pass, and call `release` with those that have ended, `ended` first, as often as needed. Neither may
        raise for a fault of one job. An error of `release` is raised after every pass has ended and was released."""
        if len(passes) + len(ended) == 1:
            # A pass alone needs no thread, as most do while few jobs change.
            release([*ended, *(run_pass() for run_pass in passes)])
        else:
            self._run_in_threads(passes, release, ended)

    def _pool(self) -> ThreadPoolExecutor:
        """The pool of the calling thread. It ends with that thread."""
        # A pool for each calling thread: a shared one could be full of another task's passes that hang.
        pool: ThreadPoolExecutor | None = getattr(self._of_caller, "pool", None)
        if pool is None:
            pool = self._of_caller.pool = ThreadPoolExecutor(self._width, thread_name_prefix="pass")
        return pool

    def _run_in_threads(
        self, passes: Sequence[Callable[[], T]], release: Callable[[Sequence[T]], None], ended: Sequence[T]
    ) -> None:
        running = len(passes)
        unreleased = deque(ended)
        errors: list[BaseException] = []
        all_ended = threading.Event()
        counting = threading.Lock()

        def run_one(run_pass: Callable[[], T]) -> None:
            nonlocal running
            try:
                unreleased.append(run_pass())
            except BaseException as error:  # noqa: BLE001  raised in the caller's thread
                errors.append(error)
            finally:
                with counting:
                    running -= 1
                    if running == 0:
                        all_ended.set()

        for run_pass in passes:
            self._pool().submit(run_one, run_pass)
        if not passes:
            all_ended.set()
        while not (all_ended.is_set() and not unreleased):
            try:
                # With a time-out, so that passes that have ended are released while others hang.
                all_ended.wait(GATHER_SECONDS)
                _release_all(unreleased, release, errors)
            except SoftTimeLimitExceeded:
                # Threads cannot be stopped. Each pass checks the time when it renews its lease. A pass that is still
                # running at the hard limit dies with this process, and its key comes back alone.
                log.warning("some passes of a task take long; the others have been released", passes=running)
        if errors:
            raise errors[0]


def _release_all(unreleased: deque[T], release: Callable[[Sequence[T]], None], errors: list[BaseException]) -> None:
    batch = list(unreleased)
    if not batch:
        return
    try:
        release(batch)
    except SoftTimeLimitExceeded:
        # Nothing leaves `unreleased`: the next call releases the same passes again, which does no harm.
        raise
    except Exception as error:  # noqa: BLE001  raised after every pass has ended
        errors.append(error)
    for _ in batch:
        unreleased.popleft()
