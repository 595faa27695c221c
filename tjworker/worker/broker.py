"""kombu's Redis transport with two changes: a foreign message is refused before any of it is decoded, and no message
can end the worker.

The messages, their queues and the behaviour without Redis remain kombu's. The app selects the transport with the
argument `amqp`. The setting `broker_transport` would select it too, but then kombu prints the class instead of the
URL's scheme, and Flower, which reads the scheme, has no broker page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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
"""Length of a message in Redis. This operator's longest messages are groups of 24 events, some 30 KB. A process that
reads a message holds it several times: as bytes, text, JSON, base64, and JSON again."""
LARGEST_INTEGER = 2**63
DEEPEST_HEADER = 2
"""Levels of nested lists and objects in the headers. Celery's own headers have one (`timelimit`, `stamps`)."""


class RefusedMessage(DecodeError):  # type: ignore[misc,unused-ignore]
    """A message that no process of this operator sends. The text names the rule and never quotes the message."""


class Message(virtual.Message):  # type: ignore[misc,unused-ignore]
    """A message in the only form that this operator's processes send: JSON in UTF-8, not compressed. Raises
    RefusedMessage for any other message."""

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        # Before kombu's constructor: it inflates the body, and 800 bytes may become 600 MB.
        if wrong := find_fault(payload):
            raise RefusedMessage(wrong)
        super().__init__(payload, channel=channel, **options)  # type: ignore[no-untyped-call]

    def _decode(self) -> Any:
        body = super()._decode()  # type: ignore[no-untyped-call]
        if wrong := _find_bad_number(body):
            raise RefusedMessage(f"its body has {wrong}")
        return body


def find_fault(message: Any) -> str:
    """What is wrong with a raw message; '' for a message that this operator's processes would send."""
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
    """What is wrong with the numbers or the nesting in `value`; '' if nothing is. Python reads NaN and infinities in
    JSON, and they break timers and clocks."""
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
    """Messages that were fetched and not begun. kombu puts them back when a channel closes."""

    def restore_unacked(self) -> list[Any]:
        # kombu would write the messages that Redis does not take into a pickle in /tmp, which no process reads. They
        # may be lost: a message is a hint here, and the resync sends another.
        lost: list[Any] = super().restore_unacked()  # type: ignore[no-untyped-call]
        if lost:
            log.warning("messages could not be put back into the queue; the resync sends others", messages=len(lost))
        return []


class Client(redis.Redis):
    """Checks the length of a message from a queue before any code reads its content."""

    def parse_response(self, connection: Any, command_name: Any, **options: Any) -> Any:
        answer = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        if command_name == "BRPOP" and answer:
            _refuse_long(answer[-1])
        return answer


def _refuse_long(data: Any) -> None:
    if isinstance(data, bytes) and len(data) > LONGEST_BYTES:
        raise RefusedMessage(f"it has more than {LONGEST_BYTES} bytes")


class Channel(kombu_redis.Channel):  # type: ignore[misc,unused-ignore]
    Message = Message
    connection_class = PrimaryConnection
    connection_class_ssl = PrimarySSLConnection

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)  # type: ignore[no-untyped-call]
        # kombu's constructor sets its own class, by the option `ack_emulation`.
        self.QoS: Any = QoS

    def _get_client(self) -> type[redis.Redis]:
        return Client

    def _handle_message(self, client: Any, answer: Any) -> Any:
        """Handle a message of a channel: an event, or a command of the remote control."""
        _refuse_long(answer[-1])
        return super()._handle_message(client, answer)  # type: ignore[no-untyped-call]

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (RefusedMessage, ValueError, RecursionError) as error:
            # The message is too long, or not JSON. Redis has removed it from the queue, so it needs no acknowledgement.
            log_refusal(describe_refusal(error))
            return True

    def _receive_one(self, client: Any) -> Any:
        try:
            return super()._receive_one(client)  # type: ignore[no-untyped-call]
        except (RefusedMessage, RecursionError) as error:
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
        """Deliver a message, or refuse it if it cannot be read."""
        # kombu and Celery would let the error end the worker, which then puts the message back for the next worker.
        try:
            super()._deliver(message, queue)  # type: ignore[no-untyped-call]
        except Exception as error:
            # kombu takes a KeyError for a lost connection. Here it means that the message lacks a field.
            if isinstance(error, self.connection_errors) and not isinstance(error, KeyError):
                raise
            log_refusal(describe_refusal(error), queue=queue)
            self._forget(message)

    def _forget(self, message: Any) -> None:
        """Remove the message from the fetched messages that wait for their acknowledgement."""
        properties = message.get("properties") if isinstance(message, dict) else None
        tag = properties.get("delivery_tag") if isinstance(properties, dict) else None
        for channel in tuple(self.channels or ()):
            if isinstance(tag, str) and tag in channel.qos._delivered:
                channel.basic_reject(tag, requeue=False)


def log_refusal(error: str, **where: str) -> None:
    """Log one line for a message that is thrown away."""
    log.warning("refused a message of the broker", error=error, **where)


def describe_refusal(error: BaseException) -> str:
    """Why a message is refused. A RefusedMessage never quotes it: any client of Redis may have written it."""
    if isinstance(error, RefusedMessage):
        return str(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


class Connection(connection.Connection):  # type: ignore[misc,unused-ignore]
    def get_transport_cls(self) -> type[Transport]:
        return Transport


class AMQP(amqp.AMQP):  # type: ignore[misc,unused-ignore]
    """Celery's factory of connections, producers and messages."""

    Connection = Connection


class Node(pidbox.Node):  # type: ignore[misc,unused-ignore]
    """A worker's end of the remote control. Ignores commands that it cannot read."""

    def handle_message(self, body: Any, message: Any = None) -> Any:
        # Celery would close the mailbox and open another, and lose the commands that are sent meanwhile.
        try:
            return super().handle_message(body, message)  # type: ignore[no-untyped-call]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            log_refusal(describe_refusal(error), queue="the remote control")
            return None


class Mailbox(control.Mailbox):  # type: ignore[misc,unused-ignore]
    node_cls = Node


class Control(control.Control):  # type: ignore[misc,unused-ignore]
    """Celery's factory of senders and receivers of the remote control's commands."""

    Mailbox = Mailbox


class EventDispatcher(dispatcher.EventDispatcher):  # type: ignore[misc,unused-ignore]
    """Tries each event once. An event that cannot be sent is kept, and sent over the next connection."""

    def _publish(self, event: Any, producer: Any, routing_key: str, retry: bool = False, **options: Any) -> None:
        # Celery repeats a heartbeat until Redis takes it. The worker's main process would wait here while Redis is
        # away: it would log nothing, ignore SIGTERM and its children's messages, and notice only afterwards that it
        # must begin to consume again.
        super()._publish(event, producer, routing_key, retry=False, **options)


class Events(events.Events):  # type: ignore[misc,unused-ignore]
    """Celery's factory of senders and receivers of events."""

    dispatcher_cls = "tjworker.worker.broker:EventDispatcher"
