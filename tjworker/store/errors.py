"""Maps errors of Redis to those of the operator. Messages name the Redis, never its password.

Transient: Redis is away, starting, read-only, full, busy or silent. Terminal: it refuses the user or the command.
Scripts answer `FENCED ...` and `LOST ...` themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from redis import exceptions

from tjworker.base import REDIS_AWAY, REDIS_FULL, Fenced, OperatorError, Terminal, Transient
from tjworker.store.projection import Lost

_PASSING = {
    "LOADING": "is still loading its data",
    "BUSY": "is busy with a script",
    "MASTERDOWN": "has lost its primary",
    "CLUSTERDOWN": "is down",
    "TRYAGAIN": "is moving keys",
    "NOREPLICAS": "has too few replicas for a write",
    "MISCONF": "cannot write to its disk",
    "READONLY": "is a read-only replica",
    "OOM": "has no memory left (maxmemory)",
}
"""First word of an error reply -> words for the message. Each state passes by itself or is cured from outside."""


CLUSTER_MODE = (
    "is in cluster mode, in which the operator cannot work, since one script changes keys of several slots; name a "
    "Redis without cluster mode in TJ_REDIS_URL (docs/operations.md, A Redis of your own)"
)

_OF_A_SCRIPT = "in a cluster node"
"""Part of an error that has only the general word ERR: a script "attempted to access a non local key in a cluster
node"."""


def is_of_a_replica(error: BaseException) -> bool:
    """True if a replica answered, which refuses writes: the primary has changed."""
    # MASTERDOWN: with `replica-serve-stale-data no`, a replica that has lost its primary refuses reads as well.
    return isinstance(error, exceptions.ReadOnlyError) or str(error).startswith(("READONLY", "MASTERDOWN"))


def describe(url: str) -> str:
    """`redis://host:port/db` of a URL, without user, password and options."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    # The host that redis-py takes for a URL without any.
    host = parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{parts.port or 6379}{parts.path or '/0'}"


@contextmanager
def mapped(where: str) -> Iterator[None]:
    """Raise the operator's errors in place of redis-py's. `where`: `describe(url)`."""
    try:
        yield
    except exceptions.RedisError as error:
        raise translate(error, where) from error


def translate(error: exceptions.RedisError, where: str) -> OperatorError | Lost:
    text = " ".join(str(error).split())
    word = text.partition(" ")[0].rstrip(":")
    # A script's `error_reply` arrives unchanged, so its first word decides, before the classes that redis-py makes of
    # Redis' own errors.
    if word == "FENCED":
        return Fenced(f"{text.removeprefix('FENCED ')}: a newer holder has taken over")
    if word == "LOST":
        return Lost(f"{text.removeprefix('LOST ')} (Redis at {where})")
    passing, reason = _PASSING.get(word), REDIS_AWAY
    # For an error that has a class of its own, redis-py removes the first word from the text.
    if isinstance(error, exceptions.BusyLoadingError):
        passing = _PASSING["LOADING"]
    elif isinstance(error, exceptions.ReadOnlyError):
        passing = _PASSING["READONLY"]
    elif isinstance(error, exceptions.OutOfMemoryError):
        passing = _PASSING["OOM"]
    elif isinstance(error, exceptions.ClusterCrossSlotError | exceptions.MovedError) or _OF_A_SCRIPT in text:
        return Terminal(f"Redis at {where} {CLUSTER_MODE}: {text}", reason="RedisRefused")
    elif isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        # An administrator may mend the ACL, but not within this call.
        return Terminal(
            f"Redis at {where} refuses the user of TJ_REDIS_URL: {text}; see docs/redis.md for the ACL it needs"
        )
    elif isinstance(error, exceptions.TimeoutError):
        passing = "does not answer"
    elif isinstance(error, exceptions.ConnectionError):
        # Comes last: redis-py derives AuthenticationError and BusyLoadingError from ConnectionError, and a wrong
        # password would count as an outage that ends by itself.
        passing = "cannot be reached"
    # The watcher must know this state from others: a full Redis still takes deletions, with which it makes room.
    if passing == _PASSING["OOM"]:
        reason = REDIS_FULL
    if passing:
        return Transient(f"Redis at {where} {passing}: {text}; trying again", reason=reason)
    # An unknown refusal is not tried at once: the same command would be refused again, and a bug of the operator would
    # look like an outage.
    return Terminal(f"Redis at {where} refused a command: {text}", reason="RedisRefused")
