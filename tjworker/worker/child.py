"""Ends each task of a worker's child in time, and keeps its messages to the main process small enough for a pipe.

The main process reads nothing while it tries to reach Redis. A child that writes more than its pipe holds then blocks
in the middle of a message. Celery's soft limit, a timer and a signal of the main process, would interrupt the child
there: the child writes its next message into the first, and the main process reads garbage until it is killed. So the
child has a timer of its own.

A message of at most PIPE_BUF bytes is written completely or not at all, whatever signal comes (POSIX, `write`), and is
read completely. `register_limits` bounds errors, and `BoundedTask` results. Celery's hard limit remains as a watchdog.
"""

from __future__ import annotations

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

RESULT_BYTES = 2_800
"""Limit of a task's text, in UTF-8. Celery sends its `repr`, in which quotes and backslashes may double, cut to 1,024
characters (`Task.resultrepr_maxsize`), with some 100 bytes around it."""
ERROR_BYTES, TRACEBACK_BYTES = 900, 2_400
LEAVE_SECONDS = 2.0


class End(Exception):
    """A task has not done its work. The message says how it ended; the cause has been logged."""

    def __repr__(self) -> str:
        # Flower shows the repr.
        return str(self)


class Failed(End):
    """Red in Flower."""


class TriedAgain(End):
    """Yellow in Flower: the work queue gives the key out again."""


class Crashed(End):
    """Red in Flower: a bug. The child has logged the whole error."""


class BoundedTask(Task):  # type: ignore[misc,unused-ignore]
    """A task that returns a text for Flower. Raises Failed, Retry, Terminal, or whatever a bug raises."""

    abstract = True

    def __call__(self, *args: Any, **named: Any) -> str:
        seconds = load_settings().task_soft_time_limit_seconds
        try:
            with time_limit(seconds):
                return cut_text(self.run(*args, **named), RESULT_BYTES)
        except Transient as error:
            # Redis is away. Without the chain of errors: the client library's two errors only repeat it at length.
            end_as_retried(error.message)
        except SoftTimeLimitExceeded:
            raise Failed(f"took longer than TJ_TASK_SOFT_TIME_LIMIT_SECONDS={seconds:g}") from None


def end_as_retried(words: str) -> NoReturn:
    """End the task as one that is retried. Raises Retry."""
    # Not Task.retry, which would send a message: the work queue decides when the next pass begins.
    raise Retry(words, TriedAgain(words)) from None


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises SoftTimeLimitExceeded in the block after `seconds`, and never after the block. Has no effect outside of
    the main thread, as in Celery's pool `threads`: Python delivers signals only to the main thread."""
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


def cut_text(text: str, most_bytes: int) -> str:
    """The beginning of `text`, at most `most_bytes` of UTF-8, in one line without control characters."""
    return printable(text).encode(errors="replace")[:most_bytes].decode(errors="ignore")


def register_limits() -> None:
    """Shorten errors that cross billiard's pipes, and the wait of a child before its end, in this process and its
    children."""
    # Billiard sends the error itself with every frame of its traceback, and of the errors behind it: 31 KB for the
    # smallest one, and a pipe holds 64.
    ForkingPickler.register(ExceptionInfo, _shorten)
    # Before a child ends, it waits up to 30 s until the main process has counted the results of all its tasks. The main
    # process does not count a task that was handed over as Redis went away, so after an outage each child would wait in
    # vain. The main process reads the rest of a pipe after the child's end, too.
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
    lines = ""
    # The traceback of an End only leads to the line that raises it.
    if made is Crashed:
        lines = str(info.traceback or "").encode(errors="replace")[-TRACEBACK_BYTES:].decode(errors="ignore")
    return _restore, (made, cut_text(words, ERROR_BYTES), lines)


def _restore(made: type[End], words: str, lines: str) -> Any:
    info: Any = ExceptionInfo.__new__(ExceptionInfo)
    error: Exception = made(words)
    info.exception = Retry(words, error) if made is TriedAgain else error
    info.type, info.tb, info.traceback, info.internal = type(info.exception), None, lines, False
    return info
