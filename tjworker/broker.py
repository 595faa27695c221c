"""kombu's Redis transport with one client a connection pool instead of one a command, and with deliveries that no
message can end.

What is sent, where to, and what happens when Redis goes away stay kombu's. A worker's main process takes 1.7 ms a no-op
task instead of 2.4 (docs/internals/performance.md). The app selects it with `amqp="tjworker.broker:AMQP"`. The setting
`broker_transport` would select it too, but then kombu prints the class where the URL's scheme belongs, and Flower,
which reads the scheme, has no broker page.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from celery.app import amqp
from kombu import connection
from kombu.transport import redis as kombu_redis

log = structlog.get_logger(__name__)


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

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (ValueError, RecursionError) as error:
            # No JSON. Redis has handed it out: nothing is left to be acknowledged.
            log.warning("refused a message of the broker", error=describe_refusal(error))
            return True

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

    def _deliver(self, message: Any, queue: str) -> None:
        """A message that cannot be read costs itself. kombu and Celery let such errors end the worker, and at its end
        it puts the message back for the next one."""
        try:
            super()._deliver(message, queue)  # type: ignore[no-untyped-call]
        except self.connection_errors:
            raise
        except Exception as error:  # noqa: BLE001  whatever is wrong with it
            log.warning("refused a message of the broker", queue=queue, error=describe_refusal(error))
            self._forget(message)

    def _forget(self, message: Any) -> None:
        """Give back the place of the message among those that are fetched and not acknowledged."""
        properties = message.get("properties") if isinstance(message, dict) else None
        tag = properties.get("delivery_tag") if isinstance(properties, dict) else None
        for channel in tuple(self.channels or ()):
            if isinstance(tag, str) and tag in channel.qos._delivered:
                channel.basic_reject(tag, requeue=False)


def describe_refusal(error: BaseException) -> str:
    """Without the message: anybody may have written it."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


class Connection(connection.Connection):  # type: ignore[misc,unused-ignore]
    def get_transport_cls(self) -> type[Transport]:
        return Transport


class AMQP(amqp.AMQP):  # type: ignore[misc,unused-ignore]
    """Celery's factory of connections, producers and messages."""

    Connection = Connection
