"""What projection and work queue share in Redis: keys under one prefix, scripts, and reads that are retried once.

Keeps no state. Thread-safe. A command that raised Transient may have happened nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import redis

from tjworker.base import JobKey, OperatorError, Transient
from tjworker.store import scripts
from tjworker.store.errors import mapped
from tjworker.store.keys import BY_NAME

T = TypeVar("T")

# Redis answers no other client while it runs a script or a command with many keys.
KEYS_PER_CALL = 1000


class RedisCommands:
    """`where` names this Redis in messages."""

    def __init__(self, client: redis.Redis, prefix: str, *, where: str) -> None:
        self.client = client
        self.prefix = prefix
        self._where = where
        # EVALSHA sends a hash of 40 characters where EVAL would send kilobytes of Lua with each call.
        self.scripts = {name: client.register_script(scripts.source(name)) for name in scripts.NAMES}

    def key(self, name: str, suffix: str = "") -> str:
        return BY_NAME[name].of(self.prefix, suffix)

    def mapped(self) -> AbstractContextManager[None]:
        """Turn errors of Redis into OperatorErrors."""
        return mapped(self._where)

    def run(self, script: str, *arguments: Any) -> Any:
        with self.mapped():
            return self.scripts[script](args=[self.prefix, *arguments])

    def run_each(self, script: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run a script with each of these argument lists, in one round trip. Returns the answers; for a call that
        failed, its OperatorError. Raises if all failed."""
        known = self.scripts[script]

        def send(calls: Sequence[Sequence[Any]]) -> list[Any]:
            # No transaction: each call is atomic by itself, and Redis serves other clients in between.
            pipe = self.client.pipeline(transaction=False)
            for arguments in calls:
                pipe.evalsha(known.sha, 0, self.prefix, *arguments)
            return pipe.execute(raise_on_error=False)

        with self.mapped():
            answers = send(calls)
            unknown = [n for n, answer in enumerate(answers) if isinstance(answer, redis.exceptions.NoScriptError)]
            # Redis was restarted, or its scripts were flushed: these calls have not run.
            if unknown:
                self.client.script_load(known.script)
                for n, answer in zip(unknown, send([calls[n] for n in unknown]), strict=True):
                    answers[n] = answer
            if answers and all(isinstance(answer, Exception) for answer in answers):
                raise answers[0]
        return [self.fault(answer) if isinstance(answer, Exception) else answer for answer in answers]

    def fault(self, error: Exception) -> OperatorError:
        """The OperatorError that `mapped` would raise for this error."""
        try:
            with self.mapped():
                raise error
        except OperatorError as found:
            return found

    def read(self, read: Callable[[], T]) -> T:
        """Read, and read once more over a new connection if the server has closed an idle one."""
        try:
            with self.mapped():
                return read()
        except Transient as error:
            # Not after a time-out: a Redis that is busy would be asked twice, and the caller would wait twice as long.
            if not isinstance(error.__cause__, redis.exceptions.ConnectionError):
                raise
            with self.mapped():
                return read()

    def members(self, name: str) -> list[JobKey]:
        """The members of a set of job keys, sorted."""
        # In parts: SMEMBERS of 50,000 keys would hold up every other client.
        return sorted(job_keys(self.read(lambda: list(self.client.sscan_iter(self.key(name), count=KEYS_PER_CALL)))))


def as_hash(pairs: Any) -> Any:
    """The hash that a script returns as alternating fields and values. An error is returned as it is."""
    if isinstance(pairs, Exception):
        return pairs
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def job_keys(answer: Iterable[bytes]) -> list[JobKey]:
    return [JobKey(text(key)) for key in answer]


def text(value: bytes) -> str:
    """A name in Redis as text. A stranger may have written it: bytes that are no UTF-8 survive the way back into a
    command (`connect.client`), so that such a name can be refused and deleted like any other."""
    return value.decode(errors="surrogateescape")


def version(value: bytes) -> int:
    """A resourceVersion. What is no number becomes 0, which is older than every version."""
    return int(value) if value.isdigit() and len(value) < _DIGITS else 0


_DIGITS = 40
"""Python refuses to parse a number of thousands of digits."""


def milliseconds(seconds: float) -> int:
    # Redis refuses an expiry of 0 as an error, and a period below a millisecond rounds to it.
    return max(1, round(seconds * 1000))


def flat(rows: Iterable[Iterable[Any]]) -> list[Any]:
    return [value for row in rows for value in row]


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
