"""What the two halves of the store in Redis share: keys under one prefix, scripts, and reads that may be sent twice.

Keeps no state. Thread-safe. A command that raised Transient may still have happened.
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

KEYS_PER_CALL = 1000


class RedisCommands:
    """`where` is how messages name this Redis."""

    def __init__(self, client: redis.Redis, prefix: str, *, where: str) -> None:
        self.client = client
        self.prefix = prefix
        self._where = where
        self.scripts = {name: client.register_script(scripts.source(name)) for name in scripts.NAMES}

    def key(self, name: str, suffix: str = "") -> str:
        return BY_NAME[name].of(self.prefix, suffix)

    def mapped(self) -> AbstractContextManager[None]:
        """Raises our errors for those of Redis."""
        return mapped(self._where)

    def run(self, script: str, *arguments: Any) -> Any:
        with self.mapped():
            return self.scripts[script](args=[self.prefix, *arguments])

    def run_each(self, script: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """A script with each of these arguments, in one round trip. The answers; in the place of one that has failed,
        its error (OperatorError). Raises where all have failed."""
        known = self.scripts[script]

        def send(calls: Sequence[Sequence[Any]]) -> list[Any]:
            pipe = self.client.pipeline(transaction=False)
            for arguments in calls:
                pipe.evalsha(known.sha, 0, self.prefix, *arguments)
            return pipe.execute(raise_on_error=False)

        with self.mapped():
            answers = send(calls)
            unknown = [n for n, answer in enumerate(answers) if isinstance(answer, redis.exceptions.NoScriptError)]
            if unknown:  # a new Redis, or SCRIPT FLUSH: these have not run
                self.client.script_load(known.script)
                for n, answer in zip(unknown, send([calls[n] for n in unknown]), strict=True):
                    answers[n] = answer
            if answers and all(isinstance(answer, Exception) for answer in answers):
                raise answers[0]
        return [self.fault(answer) if isinstance(answer, Exception) else answer for answer in answers]

    def fault(self, error: Exception) -> OperatorError:
        """What Redis has answered to one command of several, as `mapped` would raise it."""
        try:
            with self.mapped():
                raise error
        except OperatorError as found:
            return found

    def read(self, read: Callable[[], T]) -> T:
        """Sent again, once, over a new connection when the server had closed an idle one."""
        try:
            with self.mapped():
                return read()
        except Transient as error:
            if not isinstance(error.__cause__, redis.exceptions.ConnectionError):
                raise
            with self.mapped():
                return read()

    def members(self, name: str) -> list[JobKey]:
        """Of a set of job keys, sorted."""
        return sorted(job_keys(self.read(lambda: list(self.client.sscan_iter(self.key(name), count=KEYS_PER_CALL)))))


def as_hash(pairs: Any) -> Any:
    """What a script gives of a hash: its fields and values by turns. An error stays one."""
    if isinstance(pairs, Exception):
        return pairs
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def job_keys(answer: Iterable[bytes]) -> list[JobKey]:
    return [JobKey(text(key)) for key in answer]


def text(value: bytes) -> str:
    """A name as it stands in Redis. Somebody else may have written it: what is no UTF-8 comes through, and is the same
    bytes again in a command (`connect.client`), so that it can be refused and taken out like any other name."""
    return value.decode(errors="surrogateescape")


def version(value: bytes) -> int:
    """A resourceVersion; 0, which is behind every other, for what is no number."""
    return int(value) if value.isdigit() and len(value) < _DIGITS else 0


_DIGITS = 40
"""Python refuses to read a number of thousands."""


def milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def flat(rows: Iterable[Iterable[Any]]) -> list[Any]:
    return [value for row in rows for value in row]


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
