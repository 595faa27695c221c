"""The client of Redis, and the store over it: every wait is bounded, and no command is sent twice by the client.

Connects to nothing yet. Not safe across a fork: make it afterwards.

redis-py by default sends a command again when its answer did not come. Most of ours must not run twice (an `acquire`
sent again finds the key leased, by itself, until the lease lapses), so retries are off; `RedisCommands.read` repeats
reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tjworker.settings import Settings
from tjworker.store.errors import describe, is_of_a_replica
from tjworker.store.redis_commands import RedisCommands
from tjworker.store.redis_projection import RedisProjection
from tjworker.store.redis_work_queue import RedisWorkQueue
from tjworker.store.seal import open_seal
from tjworker.store.sealed_store import SealedStore, sealed

CONNECT_TIMEOUT_SECONDS = 3.0
ANSWER_TIMEOUT_SECONDS = 8.0
"""Longer than any of our scripts (a full resync of 10,000 jobs takes well under a second)."""
HEALTH_CHECK_SECONDS = 15


class _ToThePrimary:
    """A connection that is made again after a replica has answered on it. Behind an address that follows the primary (a
    Service, HAProxy) a connection to the primary of before lasts as long as both ends keep it, and each write on it is
    refused; a new one leads to the new primary. redis-py does the same where it asks Sentinel itself
    (`SentinelManagedConnection.read_response`)."""

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except redis.ResponseError as error:
            if is_of_a_replica(error):
                self.mark_for_reconnect()  # type: ignore[attr-defined]
            raise


class PrimaryConnection(_ToThePrimary, redis.Connection):
    pass


class PrimarySSLConnection(_ToThePrimary, redis.SSLConnection):
    pass


_CLASSES = {"redis": PrimaryConnection, "rediss": PrimarySSLConnection}


def client(url: str, **options: Any) -> redis.Redis:
    """A pooled, thread-safe client. Raises ValueError for a URL that it cannot parse."""
    if kind := _CLASSES.get(url.partition("://")[0]):
        options.setdefault("connection_class", kind)
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
        socket_timeout=ANSWER_TIMEOUT_SECONDS,
        socket_keepalive=True,
        health_check_interval=HEALTH_CHECK_SECONDS,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        encoding_errors="surrogateescape",  # as `redis_commands.text` has read it
        **options,
    )


def open_sealed_store(settings: Settings) -> SealedStore:
    """The store of a watcher or a worker. Raises Terminal without a record key."""
    seal = open_seal(settings.record_key_list, settings.key_prefix)
    store = open_store(
        settings.redis_url,
        settings.key_prefix,
        retry_base_seconds=settings.retry_base_seconds,
        retry_max_seconds=settings.retry_max_seconds,
    )
    return sealed(store, seal)


@dataclass(frozen=True, slots=True)
class RedisStore:
    """The Store of `store.port` in Redis."""

    projection: RedisProjection
    queue: RedisWorkQueue


def open_store(url: str, prefix: str, *, retry_base_seconds: float = 1, retry_max_seconds: float = 300) -> RedisStore:
    """The store, not connected yet, with its records as they stand in Redis: sealed."""
    commands = RedisCommands(client(url), prefix, where=describe(url))
    return RedisStore(
        RedisProjection(commands),
        RedisWorkQueue(commands, retry_base_seconds=retry_base_seconds, retry_max_seconds=retry_max_seconds),
    )
