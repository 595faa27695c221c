"""What surrounds each task in a worker's child: it ends in time, and what it tells the main process fits a pipe.

Both are done here, and not by Celery's soft limit, because the main process reads nothing while it tries to reach
Redis. A child that writes more than its pipe holds then waits in the middle of a message, and Celery's soft limit, a
timer and a signal of the main process, would hit that child there: it writes the next message into the first, and the
main process reads rubbish until it is killed.

A message of at most PIPE_BUF bytes is written whole or not at all, whatever signal comes (POSIX, `write`), and read
whole. `register` sees to it for errors, `BoundedTask` for results; Celery's hard limit stays, as a watchdog.
"""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from billiard import pool
from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from billiard.reduction import ForkingPickler
from celery import Task
from celery.exceptions import Retry, SoftTimeLimitExceeded

from tjworker.base import OperatorError, Transient, printable
from tjworker.settings import load_settings

PIPE_BYTES = select.PIPE_BUF
RESULT_BYTES = 2_800
"""Of a task's words, in UTF-8. Celery sends their `repr`, in which quotes and backslashes may double, cut to 1,024
characters (`Task.resultrepr_maxsize`); around it come some 100 bytes."""
ERROR_BYTES, TRACEBACK_BYTES = 900, 2_400
LEAVE_SECONDS = 2.0


class End(Exception):
    """How a task ended that did not do its work, in words; it has been logged."""

    def __repr__(self) -> str:
        """Flower shows this."""
        return str(self)


class Failed(End):
    """Red."""


class TriedAgain(End):
    """Yellow: the work queue gives the key out again."""


class Crashed(End):
    """Red, and nobody expected it: an error that is no word for people. The child has logged all of it."""


class BoundedTask(Task):  # type: ignore[misc,unused-ignore]
    """Returns a text. Raises Failed, Retry, Terminal, or what a bug raises."""

    abstract = True

    def __call__(self, *args: Any, **named: Any) -> str:
        seconds = load_settings().task_soft_time_limit_seconds
        try:
            with time_limit(seconds):
                return cut(self.run(*args, **named), RESULT_BYTES)
        except Transient as error:
            # Redis is away. Two errors of the client library lie behind it, which say the same at greater length.
            again(error.message)
        except SoftTimeLimitExceeded:
            raise Failed(f"took longer than TJ_TASK_SOFT_TIME_LIMIT_SECONDS={seconds:g}") from None


def again(words: str) -> NoReturn:
    """End the task as one that is tried again. Not Task.retry, which would send a message: the work queue says when."""
    raise Retry(words, TriedAgain(words)) from None


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises SoftTimeLimitExceeded in the block once it has taken so long, and never after it. Without effect outside
    of the main thread, to which alone Python brings signals (Celery's pool `threads`)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    running = True

    def end(*_: Any) -> None:
        if running:
            raise SoftTimeLimitExceeded

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def cut(text: str, most_bytes: int) -> str:
    """The beginning of a text, in one line without control characters, of at most so many bytes of UTF-8."""
    return printable(text).encode(errors="replace")[:most_bytes].decode(errors="ignore")


def register() -> None:
    """From now on an error crosses billiard's pipes as a few lines. Billiard sends the error itself, however long, with
    every frame of its traceback and those of the errors behind it: 31 KB for the smallest, when a pipe holds 64.

    And a child leaves soon. Before it ends it waits until the main process has counted the results of all its tasks,
    30 s at most. The main process counts none of a task that was handed over as Redis went, so that after an outage
    every child would wait in vain; what is left in a pipe is read after the child's end as well."""
    ForkingPickler.register(ExceptionInfo, _shorten)
    pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = round(
        LEAVE_SECONDS / pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_INTERVAL
    )


def _shorten(info: ExceptionInfo) -> tuple[Any, ...]:
    error = info.exception
    if isinstance(error, ExceptionWithTraceback):
        error = error.exc
    made: type[End]
    if isinstance(error, Retry):
        made, words = TriedAgain, str(error.exc or error.message)
    elif isinstance(error, (End, OperatorError)):
        made, words = Failed, str(error)
    else:
        made, words = Crashed, f"{type(error).__name__}: {error}"
    lines = ""  # of an end they lead to the line that raises it, which says nothing
    if made is Crashed:
        lines = str(info.traceback or "").encode(errors="replace")[-TRACEBACK_BYTES:].decode(errors="ignore")
    return _restore, (made, cut(words, ERROR_BYTES), lines)


def _restore(made: type[End], words: str, lines: str) -> Any:
    info: Any = ExceptionInfo.__new__(ExceptionInfo)
    error: Exception = made(words)
    info.exception = Retry(words, error) if made is TriedAgain else error
    info.type, info.tb, info.traceback, info.internal = type(info.exception), None, lines, False
    return info
