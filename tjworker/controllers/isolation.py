"""Isolates the objects in the loops of controllers: an error of one object does not affect the others.

An object that cannot be read, decided on or written is logged with its name and counted, and the loop goes on. Two
errors end a run: the task's time limit, and an API server that did not answer for several objects in a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from tjworker.base import OperatorError, Transient

UNANSWERED_IN_A_ROW = 3
"""After this many objects without an answer the run ends. A single one may be the fault of a webhook, but an API server
that is away must not be asked for each object."""


class Isolation:
    """One per controller. Remembers the errors of the last run, so that an error that stays is logged once."""

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self.log = log
        self._errors: dict[str, str] = {}
        self._last_errors: dict[str, str] = {}
        self._unanswered = 0

    def begin(self) -> None:
        """Begin a new run."""
        self._last_errors, self._errors, self._unanswered = self._errors, {}, 0

    @property
    def failed(self) -> int:
        """How many objects of this run had an error."""
        return len(self._errors)

    @contextmanager
    def item(self, doing: str, name: str) -> Iterator[None]:
        """Run the body for one object. `doing` and `name` complete the message "cannot ...", as in "cannot delete pods
        default/a"."""
        try:
            yield
        except SoftTimeLimitExceeded:
            raise
        except OperatorError as error:
            unanswered = isinstance(error, Transient) and not error.status
            self._unanswered = self._unanswered + 1 if unanswered else 0
            if self._unanswered >= UNANSWERED_IN_A_ROW:
                raise
            if self._is_news(name, error.message):
                self.log.warning(f"cannot {doing} {name}", error=error.message)
        except Exception as error:
            if self._is_news(name, f"{type(error).__name__}: {error}"):
                self.log.exception(f"cannot {doing} {name}")
        else:
            self._unanswered = 0

    def _is_news(self, name: str, message: str) -> bool:
        self._errors[name] = message
        return self._last_errors.get(name) != message
