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
"""`<plural>.<group>`, or the plural alone for the core group: the form of Kubernetes' GroupResource."""
JobKey = NewType("JobKey", str)
"""`<plural>.<group>/<namespace>/<name>`, for example `aitrainingjobs.elasticdeeplearning.ai/default/digits`. It names a
job in the queue, in locks and in logs. With the group, two kinds of the same plural never share a key."""
Uid = NewType("Uid", str)

Json = Mapping[str, Any]
"""A JSON object that its holder only reads, such as an object of the API server: copy it before you change it."""
JsonDict = dict[str, Any]
"""A JSON object that its holder builds or may change, such as the body of a request."""


def mapping(value: object) -> Json:
    """The value if it is a JSON object, else an empty one: users and other programs may write anything."""
    return value if isinstance(value, Mapping) else {}


DEATH_RETRY_SECONDS = 10
"""How long a key waits after two passes in a row died with their process. Each further death doubles it."""
DEATH_RETRY_MOST_SECONDS = 300
KEYS_PER_TASK = 16
"""The most keys that one Celery task serves. The publisher and the resync, which counts missing tasks, both use it."""
RECORDS_PER_TASK = 500
"""The most records that a task with several keys reads. It bounds the memory of a child, and a small job does not wait
for a big one in its task."""


def backoff_seconds(waits_before: int, first_seconds: float, longest_seconds: float) -> float:
    """The wait after one more failure in a row: `first_seconds` after the first, doubled with each further one, at most
    `longest_seconds`. `waits_before`: how many waits there were before. Callers that may all fail at the same moment
    add a jitter of their own."""
    # Bounded: the power of a count of months would overflow.
    return min(longest_seconds, first_seconds * 2.0 ** min(waits_before, 40))


def death_wait_seconds(deaths: int) -> int:
    """How long a key waits after this number of deaths in a row. `scripts/common.lua` computes the same."""
    # The first death is forgiven: it is usually a deploy or a lost node.
    return 0 if deaths < 2 else int(backoff_seconds(deaths - 2, DEATH_RETRY_SECONDS, DEATH_RETRY_MOST_SECONDS))


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
    """The parts of `<plural>.<group>/<namespace>/<name>`. Raises Invalid for anything else."""
    # Keys come from a message queue and are not trusted: neither their type nor their length, which the error quotes.
    match = _KEY.fullmatch(text) if isinstance(text, str) and len(text) <= 640 else None
    if match is None:
        raise Invalid(f"job key {str(text)[:80]!r} is not of the form <plural>.<group>/<namespace>/<name>")
    return JobName(GroupResource(match["resource"]), match["namespace"], match["name"])


def printable(text: str, keep: str = "") -> str:
    """Foreign text with a blank for each character that a terminal obeys: escapes, other control characters, marks that
    turn the direction of text. `keep`: characters that stay, such as newlines."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c in keep else " " for c in text)


def with_article(noun: str) -> str:
    """The noun with its article: `an MPIJob`, `a TFJob`."""
    # Two capitals are read letter by letter: "em pee", "tee ef".
    spelt = noun[:2].isupper()
    return f"{'an' if noun[0] in ('AEFHILMNORSX' if spelt else 'AEIOaeio') else 'a'} {noun}"


def shortened(parts: Sequence[str], most_chars: int, between: str) -> str:
    """The parts that fit into `most_chars`, at least the first, and the number of the others."""
    shown, chars = [parts[0][:most_chars]], len(parts[0])
    for part in parts[1:]:
        chars += len(between) + len(part)
        if chars > most_chars:
            break
        shown.append(part)
    left = len(parts) - len(shown)
    return between.join(shown) + (f"{between}and {left} more" if left else "")


class OperatorError(Exception):
    """The base of all errors. `retry_after_seconds`: the wait that the server asked for, or None."""

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
    """Another writer was first: 409, a failed precondition, or 404 for an object that the view shows. Retried with a
    fresh view."""


class Invalid(OperatorError):
    """The job's fault (400, 422). Becomes a condition; not retried until the spec changes."""


class Terminal(OperatorError):
    """A bug (405, ...), or a missing permission (401, 403). Retrying within the same call cannot help."""


class Fenced(OperatorError):
    """A newer holder has taken the caller's lease or leadership. The caller stops at once and writes nothing more."""


MOST_KEPT_OF_A_JOB = 64 << 10
"""Bytes of a job's spec, labels and annotations that the projection keeps. The manifests in the tests, of all
operators, have 1 to 10 KiB. Redis as shipped (700 MB) has room for ten thousand jobs of this size. A larger job is read
from the API server in each pass."""
REDIS_FULL = "RedisFull"
"""The reason of a Transient while Redis refuses writes because it has reached maxmemory."""
REDIS_AWAY = "RedisAway"
"""The reason of a Transient while Redis cannot be reached, or takes no writes for another reason."""
