"""kombu's Redis transport with one client a connection pool instead of one a command.

What is sent, where to, and what happens when Redis goes away stay kombu's. A worker's main process takes 1.7 ms a no-op
task instead of 2.4 (docs/benchmarks.md). The app selects it with `amqp="tjworker.broker:AMQP"`. The setting
`broker_transport` would select it too, but then kombu prints the class where the URL's scheme belongs, and Flower,
which reads the scheme, has no broker page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery.app import amqp
from kombu import connection
from kombu.transport import redis as kombu_redis


class Channel(kombu_redis.Channel):  # type: ignore[misc,unused-ignore]
    _client_kept: Any = None

    @contextmanager
    def conn_or_acquire(self, client: Any = None) -> Iterator[Any]:
        yield self._client_of_pool() if client is None else client

    def _client_of_pool(self) -> Any:
        # A client of redis-py is a view of a connection pool without a state of its own, but making one copies 170
        # entries (0.15 ms). After a fork, and after every lost connection, kombu replaces the pool.
        pool = self.pool
        kept = self._client_kept
        if kept is None or kept.connection_pool is not pool:
            kept = self._client_kept = self._create_client()  # type: ignore[no-untyped-call]
        return kept

    def close(self) -> None:
        # kombu first asks Redis to delete this worker's own queues. When Redis is down that raises, and kombu leaks its
        # connections: two descriptors at each loss of Redis.
        try:
            super().close()  # type: ignore[no-untyped-call]
        finally:
            self._disconnect_pools()  # type: ignore[no-untyped-call]
            self._close_clients()  # type: ignore[no-untyped-call]


class Transport(kombu_redis.Transport):  # type: ignore[misc,unused-ignore]
    Channel = Channel


class Connection(connection.Connection):  # type: ignore[misc,unused-ignore]
    def get_transport_cls(self) -> type[Transport]:
        return Transport


class AMQP(amqp.AMQP):  # type: ignore[misc,unused-ignore]
    """Celery's factory of connections, producers and messages."""

    Connection = Connection
