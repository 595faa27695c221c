"""kombu's Redis transport with one client a connection pool instead of one a command, with messages that are refused
before anything of them is decoded, and with deliveries that no message can end.

What is sent, where to, and what happens when Redis goes away stay kombu's. A worker's main process takes 1.7 ms a no-op
task instead of 2.4 (docs/internals/performance.md). The app selects it with `amqp="tjworker.broker:AMQP"`. The setting
`broker_transport` would select it too, but then kombu prints the class where the URL's scheme belongs, and Flower,
which reads the scheme, has no broker page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import redis
import structlog
from celery.app import amqp, control, events
from celery.events import dispatcher
from kombu import connection, pidbox
from kombu.exceptions import DecodeError
from kombu.transport import redis as kombu_redis
from kombu.transport import virtual

from tjworker.store.connect import PrimaryConnection, PrimarySSLConnection

log = structlog.get_logger(__name__)

LONGEST_BYTES = 1 << 20
"""Of a message as it stands in Redis. This operator's longest are groups of 24 events, some 30 KB. A process holds a
message several times over while it reads it: as bytes, text, JSON, base64, and JSON again."""
LARGEST_INTEGER = 2**63
DEEPEST_HEADER = 2
"""Lists and objects inside the headers, inside each other. Celery's own have one (`timelimit`, `stamps`)."""


class Refused(DecodeError):  # type: ignore[misc,unused-ignore]
    """A message that no process of this operator sends. Its text names the rule, never what the message says."""


class Message(virtual.Message):  # type: ignore[misc,unused-ignore]
    """A message in the one form in which this operator's processes send theirs: JSON in UTF-8, not compressed. Raises
    Refused for any other, before its body is decoded: kombu inflates a body while it makes the Message, and a body of
    800 bytes may become 600 MB."""

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        if wrong := find_fault(payload):
            raise Refused(wrong)
        super().__init__(payload, channel=channel, **options)  # type: ignore[no-untyped-call]

    def _decode(self) -> Any:
        body = super()._decode()  # type: ignore[no-untyped-call]
        if wrong := _find_bad_number(body):
            raise Refused(f"its body has {wrong}")
        return body


def find_fault(message: Any) -> str:
    """What of a raw message is not as this operator's processes send it; empty for a good one."""
    headers, properties = (message.get("headers") or {}, message.get("properties")) if type(message) is dict else (0, 0)
    if not isinstance(headers, dict) or not isinstance(properties, dict):
        return "it is no object with headers and properties"
    content = message.get("content-type"), message.get("content-encoding")
    faults = {
        "it is compressed": headers.get("compression") is not None,
        "its content is not application/json in utf-8": content != ("application/json", "utf-8"),
        "its body is no text": not isinstance(message.get("body"), str),
        "its body is not in base64": properties.get("body_encoding") not in ("base64", "utf-8", None),
        "its delivery tag is no text": not isinstance(properties.get("delivery_tag"), str),
    }
    wrong = next((fault for fault, is_so in faults.items() if is_so), "")
    bad = "" if wrong else _find_bad_number([headers, properties], DEEPEST_HEADER)
    return f"a header or a property has {bad}" if bad else wrong


def _find_bad_number(value: Any, deepest: int | None = None) -> str:
    """JSON as Python reads it has NaN and infinities, which no timer and no clock survives."""
    level: list[Any] = [value]
    depth = 0
    while level:
        inner: list[Any] = []
        for one in level:
            if isinstance(one, Mapping):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
            elif isinstance(one, float) and not math.isfinite(one):
                return "a number that is not finite"
            elif isinstance(one, int) and abs(one) >= LARGEST_INTEGER:
                return "a number of more than 63 bits"
        if deepest is not None and inner and depth > deepest + 1:
            return f"more than {deepest} lists or objects inside each other"
        level, depth = inner, depth + 1
    return ""


class QoS(virtual.QoS):  # type: ignore[misc,unused-ignore]
    """Messages that were fetched and not begun. kombu puts them back when a channel closes, and writes those that Redis
    does not take into a pickle in /tmp, which nobody reads. A message is a hint here: the resync sends another."""

    def restore_unacked(self) -> list[Any]:
        lost: list[Any] = super().restore_unacked()  # type: ignore[no-untyped-call]
        if lost:
            log.warning("messages could not be put back into the queue; the resync sends others", messages=len(lost))
        return []


class Client(redis.Redis):
    """Looks at the length of a message that it takes from a queue, before anything reads what the message says."""

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        answer = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name == "BRPOP" and answer:
            _refuse_long(answer[-1])
        return answer


def _refuse_long(data: Any) -> None:
    if isinstance(data, bytes) and len(data) > LONGEST_BYTES:
        raise Refused(f"it has more than {LONGEST_BYTES} bytes")


class Channel(kombu_redis.Channel):  # type: ignore[misc,unused-ignore]
    Message = Message
    connection_class = PrimaryConnection
    connection_class_ssl = PrimarySSLConnection
    _client_kept: Any = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        self.QoS: Any = QoS  # it chooses its own by the option `ack_emulation`

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

    def _get_client(self) -> type[redis.Redis]:
        return Client

    def _handle_message(self, client: Any, answer: Any) -> Any:
        """Of a channel: events, and commands of the remote control."""
        _refuse_long(answer[-1])
        return super()._handle_message(client, answer)  # type: ignore[no-untyped-call]

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (Refused, ValueError, RecursionError) as error:
            # Too long, or no JSON. Redis has handed it out: nothing is left to be acknowledged.
            log_refusal(describe_refusal(error))
            return True

    def _receive_one(self, client: Any) -> Any:
        try:
            return super()._receive_one(client)  # type: ignore[no-untyped-call]
        except (Refused, RecursionError) as error:
            log_refusal(describe_refusal(error))
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
        except Exception as error:
            # kombu counts a KeyError as a lost connection; here it is a field that a message lacks.
            if isinstance(error, self.connection_errors) and not isinstance(error, KeyError):
                raise
            log_refusal(describe_refusal(error), queue=queue)
            self._forget(message)

    def _forget(self, message: Any) -> None:
        """Give back the place of the message among those that are fetched and not acknowledged."""
        properties = message.get("properties") if isinstance(message, dict) else None
        tag = properties.get("delivery_tag") if isinstance(properties, dict) else None
        for channel in tuple(self.channels or ()):
            if isinstance(tag, str) and tag in channel.qos._delivered:
                channel.basic_reject(tag, requeue=False)


def log_refusal(error: str, **where: str) -> None:
    """One line for a message that was thrown away."""
    log.warning("refused a message of the broker", error=error, **where)


def describe_refusal(error: BaseException) -> str:
    """Without the message: anybody may have written it."""
    if isinstance(error, Refused):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


class Connection(connection.Connection):  # type: ignore[misc,unused-ignore]
    def get_transport_cls(self) -> type[Transport]:
        return Transport


class AMQP(amqp.AMQP):  # type: ignore[misc,unused-ignore]
    """Celery's factory of connections, producers and messages."""

    Connection = Connection


class Node(pidbox.Node):  # type: ignore[misc,unused-ignore]
    """A worker's end of the remote control. After a command that it cannot read, Celery closes the mailbox and opens
    another: what is sent meanwhile is lost."""

    def handle_message(self, body: Any, message: Any = None) -> Any:
        try:
            return super().handle_message(body, message)  # type: ignore[no-untyped-call]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            log_refusal(describe_refusal(error), queue="the remote control")
            return None


class Mailbox(control.Mailbox):  # type: ignore[misc,unused-ignore]
    node_cls = Node


class Control(control.Control):  # type: ignore[misc,unused-ignore]
    """Celery's factory of what sends and receives commands of the remote control."""

    Mailbox = Mailbox


class EventDispatcher(dispatcher.EventDispatcher):  # type: ignore[misc,unused-ignore]
    """Tries each event once; what cannot be sent is kept, and sent over the next connection. Celery repeats a heartbeat
    until Redis takes it. The worker's main process then waits there for as long as Redis is away: it says nothing, does
    not look at SIGTERM, reads nothing of its children, and notices only afterwards that it must begin to consume
    again."""

    def _publish(self, event: Any, producer: Any, routing_key: str, retry: bool = False, **options: Any) -> None:
        super()._publish(event, producer, routing_key, retry=False, **options)


class Events(events.Events):  # type: ignore[misc,unused-ignore]
    """Celery's factory of what sends and receives events."""

    dispatcher_cls = "tjworker.broker:EventDispatcher"
