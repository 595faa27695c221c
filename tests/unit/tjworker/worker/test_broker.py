"""The broker's transport: kombu's, but for messages and lost connections."""

from __future__ import annotations

import ssl
from contextlib import suppress

from celery.worker.heartbeat import Heart

from benchmarks.support.valkey import Valkey
from tjworker.app import make_app
from tjworker.settings import Settings
from tjworker.worker import broker


def test_apps_use_it_for_redis_with_and_without_tls() -> None:
    for url in ("redis://127.0.0.1:1/0", "rediss://127.0.0.1:1/0"):
        connection = make_app(Settings(redis_url=url)).connection_for_write()
        assert connection.get_transport_cls() is broker.Transport
        assert connection.as_uri().startswith(url.partition(":")[0] + "://")


def test_tls_still_looks_at_the_certificate() -> None:
    connection = make_app(Settings(redis_url="rediss://127.0.0.1:1/0")).connection_for_write()
    assert connection.ssl == {"ssl_cert_reqs": ssl.CERT_REQUIRED}


def test_a_channel_whose_redis_is_gone_leaves_no_connection_open(own_valkey: Valkey) -> None:
    """kombu asks Redis to delete the channel's own queues first, and the error lets the rest of its `close` be."""
    app = make_app(Settings(redis_url=own_valkey.url))
    connection = app.connection_for_read()
    channel = connection.channel()
    channel.exchange_declare("news", type="fanout")
    channel.queue_declare("mine", auto_delete=True)
    channel.queue_bind("mine", exchange="news")
    channel.basic_consume("mine", True, print, "mine")
    assert channel._size("mine") == 0  # which takes a connection of its pool
    pool = channel._pool
    held = [*pool._available_connections, *pool._in_use_connections]
    assert any(one._sock is not None for one in held)
    own_valkey.kill()
    with suppress(*connection.connection_errors):
        channel.close()
    assert [one for one in held if one._sock is not None] == []


class Producer:
    """Of a Redis that is away at first."""

    def __init__(self) -> None:
        self.away = True
        self.retries: list[object] = []
        self.sent: list[object] = []

    def publish(self, event: object, *, retry: bool, **_: object) -> None:
        self.retries.append(retry)
        if self.away:
            raise OSError("away")
        self.sent.append(event)


def test_a_heartbeat_is_tried_once_and_kept_while_redis_is_away() -> None:
    """Celery asks for it to be tried until Redis takes it, and the worker's main process would do nothing else."""
    app = make_app(Settings())
    events = app.events.Dispatcher(app.connection_for_write(), enabled=False)
    events.producer, events.enabled = Producer(), True
    Heart(None, events)._send("worker-heartbeat")
    assert (events.producer.retries, events.producer.sent) == ([False], [])
    events.producer.away = False
    events.flush()
    assert [event["type"] for event in events.producer.sent] == ["worker-heartbeat"]
