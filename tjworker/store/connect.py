"""Makes the client of Redis, and the store over it. Every wait is bounded, and the client sends no command twice.

Connects at the first command. Not safe across a fork: create it afterwards.
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
from tjworker.store.redis_maintenance import RedisMaintenance
from tjworker.store.redis_projection import RedisProjection
from tjworker.store.redis_work_queue import RedisWorkQueue
from tjworker.store.seal import open_seal
from tjworker.store.sealed_store import SealedStore, sealed

CONNECT_TIMEOUT_SECONDS = 3.0
ANSWER_TIMEOUT_SECONDS = 8.0
"""Longer than any script takes: a full resync of 10,000 jobs takes well under a second."""
HEALTH_CHECK_SECONDS = 15


class _FollowsPrimary:
    """A connection that reconnects after a replica has answered on it."""

    def read_response(self, *args: Any, **options: Any) -> Any:
        try:
            return super().read_response(*args, **options)  # type: ignore[misc]
        except redis.ResponseError as error:
            if is_of_a_replica(error):
                # The address follows the primary (a Service, HAProxy), but an open connection stays with the former
                # primary, which refuses each write. A new connection leads to the new one. redis-py does the same for
                # Sentinel (`SentinelManagedConnection.read_response`).
                self.mark_for_reconnect()  # type: ignore[attr-defined]
            raise


class PrimaryConnection(_FollowsPrimary, redis.Connection):
    pass


class PrimarySSLConnection(_FollowsPrimary, redis.SSLConnection):
    pass


_CLASSES = {"redis": PrimaryConnection, "rediss": PrimarySSLConnection}


def client(url: str, **options: Any) -> redis.Redis:
    """A pooled, thread-safe client. Raises ValueError if it cannot parse the URL."""
    # A unix socket leads to the same server always: no former primary can answer on it.
    if kind := _CLASSES.get(url.partition("://")[0]):
        options.setdefault("connection_class", kind)
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT_SECONDS,
        socket_timeout=ANSWER_TIMEOUT_SECONDS,
        socket_keepalive=True,
        # A load balancer may drop an idle connection without a word. A PING finds that out before a command is sent
        # that must not run twice.
        health_check_interval=HEALTH_CHECK_SECONDS,
        # redis-py would send a command again if its answer was lost. Most commands here must not run twice: an
        # `acquire` that is sent again finds the key leased, by itself, until the lease lapses. `RedisCommands.read`
        # repeats reads.
        retry=Retry(NoBackoff(), 0),
        protocol=2,
        # `redis_commands.text` decodes names with the same handler, so a foreign name survives the way back.
        encoding_errors="surrogateescape",
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
    maintenance: RedisMaintenance


def open_store(url: str, prefix: str, *, retry_base_seconds: float = 1, retry_max_seconds: float = 300) -> RedisStore:
    """The store, not connected yet. It reads and writes records as they are in Redis: sealed."""
    commands = RedisCommands(client(url), prefix, where=describe(url))
    return RedisStore(
        RedisProjection(commands),
        RedisWorkQueue(commands, retry_base_seconds=retry_base_seconds, retry_max_seconds=retry_max_seconds),
        RedisMaintenance(commands),
    )
