"""Names for ids, and the four kinds of error. Imports nothing of the project; safe everywhere.

Every error of the API server or of Redis is mapped to one of the four classes once, where the call is made
(`kube/errors.py`, `store/errors.py`); everything above handles classes, never status codes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NewType

JobKey = NewType("JobKey", str)
"""`<plural>/<namespace>/<name>`, for example `aitrainingjobs/default/digits`: what is queued, locked and logged."""
Uid = NewType("Uid", str)
ResourceVersion = NewType("ResourceVersion", int)
"""The API server's revision of one object. Compared as an integer: etcd's revisions only grow, and Kubernetes
guarantees since 1.35 that clients may do so (KEP-5504). 0 means none seen."""

_KEY = re.compile(
    r"(?P<plural>[a-z]{1,63})/(?P<namespace>[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)/(?P<name>[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)"
)


@dataclass(frozen=True, slots=True)
class JobName:
    """The parts of a JobKey."""

    plural: str
    namespace: str
    name: str

    @property
    def key(self) -> JobKey:
        return JobKey(f"{self.plural}/{self.namespace}/{self.name}")


def parse_key(text: str) -> JobName:
    """The parts of `<plural>/<namespace>/<name>`. Raises Invalid for anything else: a key comes out of a message
    queue, so it is not trusted to be one."""
    match = _KEY.fullmatch(text) if isinstance(text, str) and len(text) <= 400 else None
    if match is None:
        raise Invalid(f"job key {str(text)[:80]!r} is not of the form <plural>/<namespace>/<name>")
    return JobName(match["plural"], match["namespace"], match["name"])


class OperatorError(Exception):
    """The base of the four. `retry_after_seconds` is what the server asked for, None when it did not."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class Transient(OperatorError):
    """It may work later: a time-out, 429, 5xx, quota. Retried with backoff."""


class Conflict(OperatorError):
    """Somebody else wrote first (409, a failed precondition, 404 of something that was there). Retried at once with a
    fresh view."""


class Invalid(OperatorError):
    """The job's fault (400, 422). Becomes a condition; not retried until the spec changes."""


class Terminal(OperatorError):
    """A bug (405, ...), or a missing permission (401, 403). Waiting for it in one call is of no use."""


class Fenced(OperatorError):
    """The caller is no longer who it was: a newer holder has taken the lock or the leadership. It stops at once and
    writes nothing more."""
