"""The client of Redis: every wait bounded, nothing sent twice by itself.

Makes a client, connects to nothing yet. Safe after a fork only when made after it.

redis-py would by default send a command again when its answer did not come. Most of ours may not run twice (an `acquire`
sent again finds the key held by itself, until the lease lapses), so retries are off here; `redis_store.py` repeats the
calls that it knows to be harmless.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tjworker.store.errors import describe
from tjworker.store.redis_store import RedisStore

CONNECT_TIMEOUT_SECONDS = 3.0
ANSWER_TIMEOUT_SECONDS = 8.0
"""Longer than any of our scripts (a full resync of 10,000 jobs takes well under a second)."""
HEALTH_CHECK_SECONDS = 15


def client(url: str, **options: Any) -> redis.Redis:
    """A pooled, thread-safe client. Raises ValueError for a URL that is none."""
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
        socket_timeout=ANSWER_TIMEOUT_SECONDS,
        socket_keepalive=True,
        health_check_interval=HEALTH_CHECK_SECONDS,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        **options,
    )


def open_store(url: str, prefix: str, *, retry_base_seconds: float = 1, retry_max_seconds: float = 300) -> RedisStore:
    """The store of this process, not connected yet."""
    return RedisStore(
        client(url),
        prefix,
        where=describe(url),
        retry_base_seconds=retry_base_seconds,
        retry_max_seconds=retry_max_seconds,
    )
