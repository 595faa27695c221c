"""The loops of the controllers run each object in `Isolation.item`, so that one object's trouble costs that object
alone.

An object that cannot be read, decided on or written is logged by its name and counted, and the loop goes on. Two things
end a run: the task's time limit, and an API server that several objects in a row got no answer from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from celery.exceptions import SoftTimeLimitExceeded

from tjworker.base import OperatorError, Transient

UNANSWERED_IN_A_ROW = 3
"""A webhook that never answers costs its own object; an API server that is away must not be asked for each."""


class Isolation:
    """One a controller. Remembers the errors of the last run: an error that stays is logged once."""

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self.log = log
        self._errors: dict[str, str] = {}
        self._last_errors: dict[str, str] = {}
        self._unanswered = 0

    def begin(self) -> None:
        """A new run."""
        self._last_errors, self._errors, self._unanswered = self._errors, {}, 0

    @property
    def failed(self) -> int:
        """Objects of this run that had an error."""
        return len(self._errors)

    @contextmanager
    def item(self, doing: str, name: str) -> Iterator[None]:
        """`doing` and `name` complete "cannot ...", as in "cannot delete pods default/a"."""
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
