"""Names for ids and JSON objects, and the classes of error. Imports nothing of the project.

An error of the API server or of Redis becomes one of four classes in one place, where the call is made
(`kube/errors.py`, `store/errors.py`); all code above handles classes and no status codes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NewType

GroupResource = NewType("GroupResource", str)
"""`<plural>.<group>`, the plural alone in the core group: what Kubernetes' GroupResource prints."""
JobKey = NewType("JobKey", str)
"""`<plural>.<group>/<namespace>/<name>`, for example `aitrainingjobs.elasticdeeplearning.ai/default/digits`: what is
queued, locked and logged. Two kinds of the same plural never share a key."""
Uid = NewType("Uid", str)

Json = Mapping[str, Any]
"""A JSON object that its holder only reads, such as an object of the API server: copy it before you change it."""
JsonDict = dict[str, Any]
"""A JSON object that its holder builds or may change, such as the body of a request."""


def mapping(value: object) -> Json:
    """The value if it is a JSON object, else an empty one: users and other programs may write anything."""
    return value if isinstance(value, Mapping) else {}


DEATH_RETRY_SECONDS = 10
"""How long a key waits once two passes over it in a row have died with their process; doubled with each further one."""
DEATH_RETRY_MOST_SECONDS = 300
KEYS_PER_TASK = 16
"""So many keys of the line one Celery task serves at most. Who sends tasks and who counts those that are missing both
go by it."""
RECORDS_PER_TASK = 500
"""So many records of objects, those of its first key among them, one task reads at most where it serves more than one
key: a child's memory is bounded, and a big job keeps no small ones waiting."""


def death_wait_seconds(deaths: int) -> int:
    """How long a key waits after so many deaths in a row. `scripts/common.lua` computes the same."""
    return 0 if deaths < 2 else min(DEATH_RETRY_MOST_SECONDS, DEATH_RETRY_SECONDS * 2 ** min(deaths - 2, 40))


_KEY = re.compile(
    r"(?P<resource>[a-z]([-a-z0-9]{0,61}[a-z0-9])?\.[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)"
    r"/(?P<namespace>[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)"
    r"/(?P<name>[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?)"
)


@dataclass(frozen=True, slots=True)
class JobName:
    """The parts of a JobKey."""

    resource: GroupResource
    namespace: str
    name: str

    @property
    def key(self) -> JobKey:
        return JobKey(f"{self.resource}/{self.namespace}/{self.name}")


def parse_key(text: str) -> JobName:
    """The parts of `<plural>.<group>/<namespace>/<name>`. Raises Invalid for anything else: keys come from a message
    queue and are not trusted."""
    match = _KEY.fullmatch(text) if isinstance(text, str) and len(text) <= 640 else None
    if match is None:
        raise Invalid(f"job key {str(text)[:80]!r} is not of the form <plural>.<group>/<namespace>/<name>")
    return JobName(GroupResource(match["resource"]), match["namespace"], match["name"])


def printable(text: str, keep: str = "") -> str:
    """Without what a terminal obeys, of words that others wrote: escape sequences, other control characters, marks
    that turn the direction of text. A blank stands for each; `keep`: those that may stay, such as newlines."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in keep else " " for c in text)


def with_article(noun: str) -> str:
    """`an MPIJob`, `a TFJob`: capitals before another capital are read letter by letter."""
    spelt = noun[:2].isupper()
    return f"{'an' if noun[0] in ('AEFHILMNORSX' if spelt else 'AEIOaeio') else 'a'} {noun}"


def shortened(parts: Sequence[str], most_chars: int, between: str) -> str:
    """As many of them as there is room for, the first in any case; of the others the number."""
    shown, chars = [parts[0][:most_chars]], len(parts[0])
    for part in parts[1:]:
        chars += len(between) + len(part)
        if chars > most_chars:
            break
        shown.append(part)
    left = len(parts) - len(shown)
    return between.join(shown) + (f"{between}and {left} more" if left else "")


class OperatorError(Exception):
    """The base of all. `retry_after_seconds` is the wait that the server asked for, None without one."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds


class Transient(OperatorError):
    """It may work later: a time-out, 429, 5xx, a quota. Retried with backoff."""


class Conflict(OperatorError):
    """Another writer was first (409, a failed precondition, 404 of an object that was there). Retried with a fresh
    view."""


class Invalid(OperatorError):
    """The job's fault (400, 422). Becomes a condition; not retried until the spec changes."""


class Terminal(OperatorError):
    """A bug (405, ...), or a missing permission (401, 403). A retry within the same call is no use."""


class Fenced(OperatorError):
    """A newer holder has taken the caller's lease or leadership. The caller stops at once and writes nothing more."""


MOST_KEPT_OF_A_JOB = 64 << 10
"""Bytes of a job's spec, labels and annotations that the projection keeps. Manifests of all operators in the tests have
1 to 10 KiB; one at this limit still leaves Redis (700 MB as shipped) room for ten thousand. A job above it is read from
the API server in each pass."""
REDIS_FULL = "RedisFull"
"""Reason of the Transient while Redis refuses writes because it has reached maxmemory."""
REDIS_AWAY = "RedisAway"
"""Reason of the Transient while Redis cannot be reached, or takes no writes for another reason."""
