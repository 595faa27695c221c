"""Publish Celery tasks for keys: one for a key that comes alone, one for many that come together. Used by the watcher,
the workers and beat's tasks; decides nothing.

A key that could not be published stays here and goes with the next call, so callers keep none themselves; the resync
finds a key that was lost with the process. Publishing a key twice does no harm: the second task finds nothing queued.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol

from celery import Celery
from kombu.exceptions import BatchPublishError, OperationalError
from redis.exceptions import RedisError

from tjworker.base import KEYS_PER_TASK, JobKey, Transient, shortened
from tjworker.store.errors import describe

RECONCILE = "tjworker.reconcile"
"""The task's name; its only argument is a key, a hint. It serves up to KEYS_PER_TASK keys, those whose turn it is."""
RESYNC = "tjworker.resync"
COLLECT_ORPHANS = "tjworker.collect_orphans"
AUTOSCALE = "tjworker.autoscale"
TASKS_PER_BATCH = 200
SHOWN_CHARS = 1_000
_AWAY = (OperationalError, BatchPublishError, RedisError, OSError)


class KeyPublisher(Protocol):
    """What controllers need of a Publisher."""

    def publish(self, keys: Iterable[JobKey]) -> int: ...


class Publisher:
    """Thread-safe. Connects at the first call; make it after the fork."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._waiting: dict[JobKey, None] = {}
        self._mutex = threading.Lock()

    @property
    def waiting(self) -> int:
        """Keys that wait because Redis was away."""
        return len(self._waiting)

    def publish(self, keys: Iterable[JobKey]) -> int:
        """Publish the keys that wait, then these, in order. Returns how many. Raises Transient when Redis is away; then
        call again, with new keys or none."""
        with self._mutex:
            self._waiting.update(dict.fromkeys(keys))
            if not self._waiting:
                return 0
            sent = 0
            try:
                with self._app.producer_pool.acquire(block=True, timeout=30) as producer:
                    while self._waiting:
                        part = list(islice(self._waiting, TASKS_PER_BATCH * KEYS_PER_TASK))
                        self._send(producer, part)
                        for key in part:
                            del self._waiting[key]
                        sent += len(part)
            except _AWAY as error:
                raise Transient(
                    f"{len(self._waiting)} keys wait to be published: Redis at {describe(self._app.conf.broker_url)} "
                    f"cannot be reached: {' '.join(str(error).split())}; trying again",
                    reason="RedisAway",
                ) from error
            return sent

    def _send(self, producer: Any, keys: list[JobKey]) -> None:
        """As one pipeline, which more than halves the cost of a message. A failed pipeline may have run in part; then
        the messages go one by one, each with Celery's own retry over a broken connection. Doubles do no harm."""
        tasks = [keys[start : start + KEYS_PER_TASK] for start in range(0, len(keys), KEYS_PER_TASK)]
        if len(tasks) > 1:
            with suppress(*_AWAY), producer.batch(max_size=TASKS_PER_BATCH):
                for of_task in tasks:
                    self._app.send_task(
                        RECONCILE, (of_task[0],), producer=producer, argsrepr=shown(of_task), retry=False
                    )
                return
        for of_task in tasks:
            self._app.send_task(RECONCILE, (of_task[0],), producer=producer, argsrepr=shown(of_task))


def shown(keys: Sequence[JobKey]) -> str:
    """As Flower shows a task's arguments: its list cuts them, and a key ends with what one looks for."""
    names = [key.partition("/")[2] for key in keys]
    return f"{names[0]} ({keys[0]})" if len(keys) == 1 else shortened(names, SHOWN_CHARS, ", ")
