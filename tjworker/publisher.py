"""Publishes Celery tasks for keys: 0.1 ms of CPU per task, where Celery's own call takes 0.6. Decides nothing.

One task serves a key alone, or many keys that come together. The messages are written here, so that the watcher need
not load Celery (docs/adr/0029-a-task-serves-several-keys.md). A contract test compares them with Celery's.

A key that could not be published stays here and goes with the next call, so callers keep none themselves. The resync
finds a key that was lost with the process. Publishing a key twice does no harm: the second task finds nothing queued.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import uuid
from base64 import b64encode
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

import redis

from tjworker.base import KEYS_PER_TASK, REDIS_AWAY, JobKey, Transient, shortened
from tjworker.settings import Settings
from tjworker.store.connect import client
from tjworker.store.errors import describe

RECONCILE = "tjworker.reconcile"
"""The task's name. Its only argument is a key, as a hint: the task serves the keys whose turn it is, up to
KEYS_PER_TASK."""
RESYNC = "tjworker.resync"
COLLECT_ORPHANS = "tjworker.collect_orphans"
AUTOSCALE = "tjworker.autoscale"
TASKS_PER_BATCH = 200
SHOWN_CHARS = 1_000
_AWAY = (redis.RedisError, OSError)
_NO_FURTHER_TASKS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
_encode = json.JSONEncoder(separators=(",", ":")).encode
"""Without blanks, since each message goes over the network twice. `json.dumps` would build an encoder for each call."""


class KeyPublisher(Protocol):
    """The part of a Publisher that controllers use."""

    def publish(self, keys: Iterable[JobKey]) -> int: ...


class Publisher:
    """Thread-safe. Connects at the first call. Create it after the fork."""

    def __init__(self, settings: Settings) -> None:
        self._redis = client(settings.redis_url)
        self._where = describe(settings.redis_url)
        self._queue = settings.key_prefix
        self._reply_to = str(uuid.uuid4())
        self._origin = f"gen{os.getpid()}@{socket.gethostname()}"
        self._waiting: dict[JobKey, None] = {}
        self._mutex = threading.Lock()

    @property
    def waiting(self) -> int:
        """The number of keys that wait because Redis was away."""
        return len(self._waiting)

    def publish(self, keys: Iterable[JobKey]) -> int:
        """Publish the waiting keys, then these, in order. Returns how many. Raises Transient if Redis is away: then
        call again, with new keys or none."""
        with self._mutex:
            self._waiting.update(dict.fromkeys(keys))
            sent = 0
            try:
                while self._waiting:
                    part = list(islice(self._waiting, TASKS_PER_BATCH * KEYS_PER_TASK))
                    self._send(part)
                    # Only now: a key that was not sent stays.
                    for key in part:
                        del self._waiting[key]
                    sent += len(part)
            except _AWAY as error:
                raise Transient(
                    f"{len(self._waiting)} keys wait to be published: Redis at {self._where} "
                    f"cannot be reached: {' '.join(str(error).split())}; trying again",
                    reason=REDIS_AWAY,
                ) from error
            return sent

    def _send(self, keys: Sequence[JobKey]) -> None:
        """Send all tasks in one command."""
        tasks = [keys[start : start + KEYS_PER_TASK] for start in range(0, len(keys), KEYS_PER_TASK)]
        messages = [self._build_message(of_task) for of_task in tasks]
        try:
            self._redis.lpush(self._queue, *messages)
        except redis.ConnectionError:
            # The server had closed the idle connection. If it took the messages all the same, doubles do no harm.
            self._redis.lpush(self._queue, *messages)

    def _build_message(self, keys: Sequence[JobKey]) -> str:
        """A message in the format of kombu's Redis transport and Celery's protocol 2."""
        task_id, args = str(uuid.uuid4()), describe_keys(keys)
        body = _encode([[keys[0]], {}, _NO_FURTHER_TASKS])
        headers: dict[str, Any] = {
            "lang": "py",
            "task": RECONCILE,
            "id": task_id,
            "shadow": None,
            "eta": None,
            "expires": None,
            "group": None,
            "group_index": None,
            "retries": 0,
            "timelimit": [None, None],
            "root_id": task_id,
            "parent_id": None,
            "argsrepr": args,
            "kwargsrepr": "{}",
            "origin": self._origin,
            "ignore_result": None,
            "replaced_task_nesting": 0,
            "stamped_headers": None,
            "stamps": {},
        }
        properties = {
            "correlation_id": task_id,
            "reply_to": self._reply_to,
            "argsrepr": args,
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": self._queue},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        }
        return _encode(
            {
                "body": b64encode(body.encode()).decode(),
                "content-encoding": "utf-8",
                "content-type": "application/json",
                "headers": headers,
                "properties": properties,
            }
        )


def describe_keys(keys: Sequence[JobKey]) -> str:
    """The arguments of a task as Flower shows them."""
    # Flower's list cuts long arguments. A key ends with namespace and name, so these come first.
    names = [key.partition("/")[2] for key in keys]
    return f"{names[0]} ({keys[0]})" if len(keys) == 1 else shortened(names, SHOWN_CHARS, ", ")
