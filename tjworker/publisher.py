"""Publishes one Celery task for each key. Used by the watcher, the workers and beat's tasks; decides nothing.

A key that could not be published stays in this process and goes with the next call, so nobody has to remember it; a key
lost with the process is found by the resync. Publishing a key twice does no harm: the second task finds nothing queued.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import Any

from celery import Celery
from kombu.exceptions import BatchPublishError, OperationalError
from redis.exceptions import RedisError

from tjworker.base import JobKey, Transient
from tjworker.store.errors import describe

RECONCILE = "tjworker.reconcile"
"""The task's name; its only argument is the key."""
RESYNC = "tjworker.resync"
COLLECT_ORPHANS = "tjworker.collect_orphans"
AUTOSCALE = "tjworker.autoscale"
KEYS_PER_BATCH = 200
_AWAY = (OperationalError, BatchPublishError, RedisError, OSError)


class Publisher:
    """Thread-safe. Connects at the first call; make it after a fork."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._waiting: dict[JobKey, None] = {}
        self._mutex = threading.Lock()

    @property
    def waiting(self) -> int:
        """Keys that have not been published yet because Redis was away."""
        return len(self._waiting)

    def publish(self, keys: Iterable[JobKey]) -> int:
        """One task a key, in order, after those that are still waiting. Returns how many. Raises Transient when Redis is
        away; then call again, with new keys or none."""
        with self._mutex:
            self._waiting.update(dict.fromkeys(keys))
            if not self._waiting:
                return 0
            sent = 0
            try:
                with self._app.producer_pool.acquire(block=True, timeout=30) as producer:
                    while self._waiting:
                        part = list(islice(self._waiting, KEYS_PER_BATCH))
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
        """As one pipeline, which more than halves the cost of a message. A pipeline that failed may have been carried out
        in part and is not repeated; one by one each message has Celery's own retry over a broken connection, and the doubles
        do no harm."""
        if len(keys) > 1:
            with suppress(*_AWAY), producer.batch(max_size=KEYS_PER_BATCH):
                for key in keys:
                    self._app.send_task(RECONCILE, args=(key,), producer=producer, retry=False)
                return
        for key in keys:
            self._app.send_task(RECONCILE, args=(key,), producer=producer)
