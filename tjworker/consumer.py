"""Celery's consumer (the loop of a worker's main process), with five changes: task events go out in groups, the wait
between two tries to reach the broker stays short, and so does that for the other workers at each start, a message that
no worker of ours would send is refused before it takes a slot, and of the remote control only what asks is left. The
app selects it with the setting `worker_consumer`. What a task's request tells Flower of an end that was no success is
ours, too.

The events, their order and their times stay Celery's. A worker's main process takes 1.1 ms a no-op task instead of 1.7
(docs/internals/performance.md).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from time import monotonic
from typing import Any

from billiard.einfo import ExceptionWithTraceback
from celery.exceptions import InvalidTaskError, Retry
from celery.worker import state
from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.consumer import Mingle
from celery.worker.control import Panel
from celery.worker.request import Request
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from tjworker.settings import load_settings
from tjworker.store.connect import client
from tjworker.telemetry.health import open_health
from tjworker.telemetry.worker_health import Ignored, WorkerReport

EVENTS_GATHER_SECONDS = 0.2
"""Flower shows a task that much later, with its true times, which the events carry. Celery's dispatcher sends a full
buffer (24 events) at once."""

RECONNECT_MOST_SECONDS = 4.0
"""Between two tries to reach the broker. Celery's own waits grow to 30 s without a setting for it: after some minutes
without Redis a worker would take no task for that long."""


MINGLE_SECONDS = 0.1
SIGN_SECONDS = 1.0
REQUEST = "tjworker.consumer:TaskRequest"
"""The option `Request` of a task, as text: only a worker loads it."""
ENDED_BADLY = frozenset({"task-failed", "task-retried"})
_TEXT_HEADERS = ("shadow", "root_id", "parent_id", "argsrepr", "kwargsrepr", "expires")


class TaskRequest(Request):  # type: ignore[misc,unused-ignore]
    """A message as a worker of this app sends it, or it is refused. Celery finds out later that one cannot be run, when
    it holds a slot of the pool, and never gives that back."""

    def __init__(self, message: Any, **options: Any) -> None:
        wrong = _what_is_wrong(message, options)
        if wrong:
            raise InvalidTaskError(wrong)
        super().__init__(message, **options)

    def send_event(self, type: str, **fields: Any) -> None:  # noqa: A002  the base class names it so
        """Flower searches results and shows them in its list, errors only on the task's page: here they are both."""
        ended_badly = type in ENDED_BADLY
        if ended_badly:
            # A periodic task has told of nothing before.
            fields |= {"result": fields.get("exception"), "name": self.name, "args": self.argsrepr}
        eventer = self._eventer
        if eventer and eventer.enabled and (self.task.send_events or ended_badly):
            eventer.send(type, uuid=self.id, **fields)

    def on_failure(self, exc_info: Any, *options: Any, **named: Any) -> None:
        error = exc_info.exception
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        if isinstance(error, (*self.task.throws, Retry)):
            exc_info.traceback = ""  # it leads to the line that raises it, which says nothing
        super().on_failure(exc_info, *options, **named)


def _what_is_wrong(message: Any, options: Mapping[str, Any]) -> str:
    headers = options.get("headers") or message.headers
    if options.get("decoded") or not isinstance(headers, dict):
        return "it is of an older protocol"
    wrong = [name for name in _TEXT_HEADERS if not isinstance(headers.get(name), str | None)]
    if wrong or not isinstance(headers.get("id"), str):
        return f"its header {wrong[0] if wrong else 'id'} is no text"
    if headers.get("eta") is not None:
        return "it has an eta; no task here has one"
    match headers.get("timelimit") or (None, None):
        case [None | int() | float(), None | int() | float()]:
            pass
        case _:
            return "its time limits are no two numbers"
    match message.payload:
        case [list(), dict(), dict()]:
            return ""
    return "its body is not arguments, named arguments and options"


KEPT_CONTROLS = frozenset({"enable_events", "disable_events", "heartbeat", "election"})
"""Commands that change something and are kept: Flower asks for events, workers elect one of them. The others
(cancel_consumer, shutdown, rate_limit, time_limit, pool_shrink, revoke ...) would let whoever can write to Redis stop
every worker while it still answers pings; Kubernetes stops and scales them."""


def only_asking(commands: MutableMapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Take out of the remote control what is neither a question nor kept."""
    # `kinds` has no aliases; `commands` has, as further names of the same function.
    kept = [commands[name] for name, kind in kinds.items() if kind.type == "inspect" or name in KEPT_CONTROLS]
    for name in [name for name, command in commands.items() if command not in kept]:
        del commands[name]


only_asking(Panel.data, Panel.meta)


def hello(consumer: Any) -> Any:
    """What the other workers answer at each start, by their names: their logical clocks, by which Flower orders events.
    Gossip brings those of who answers too late. Celery waits for a second, whoever answers, and takes no task before.
    The other thing that it asks for, revoked tasks, does not exist here.

    By a connection of its own, whose wait for answers Redis ends as soon: the consumer's waits for a second, and would
    not ask for tasks before. Nobody answers while Redis is away, which the next step meets in its own way."""
    try:
        with consumer.app.connection_for_read(transport_options={"max_retries": 0}) as connection:
            connection.transport.brpop_timeout = MINGLE_SECONDS
            inspect = consumer.app.control.inspect(timeout=MINGLE_SECONDS, connection=connection)
            answers = inspect.hello(consumer.hostname, []) or {}
    except (KombuError, RedisError, OSError):
        return {}
    answers.pop(consumer.hostname, None)
    return answers


class Consumer(CeleryConsumer):  # type: ignore[misc,unused-ignore]
    """Three events a task, each its own message, are a third of the main process's work. Here they share a message."""

    _flush_at_seconds = 0.0
    _sign_at = 0.0
    """When its loop last turned, or it last tried to reach Redis."""
    _reaching = True

    def start(self) -> None:
        """After the pool has forked: a thread does not survive that."""
        self._sign_at, self._ignored = monotonic(), Ignored()
        settings = load_settings()
        self._broker = client(settings.redis_url)
        try:
            open_health(settings, self.report)
        except OSError:
            raise SystemExit(2) from None
        for step in self.steps:
            if isinstance(step, Mingle):  # other steps name the class, so that it cannot be another one
                step.send_hello = hello
        super().start()

    def register_with_event_loop(self, hub: Any) -> None:
        """At each connection; the timer goes when that is lost."""
        super().register_with_event_loop(hub)
        self._reaching = False
        hub.call_repeatedly(SIGN_SECONDS, self._give_sign)

    def _give_sign(self) -> None:
        self._sign_at = monotonic()

    def report(self) -> WorkerReport:
        """In the thread of the health server."""
        queue, consumed, now = self.app.conf.task_default_queue, self.task_consumer, monotonic()
        consuming = consumed is not None and bool(consumed.consuming_from(queue))
        ignoring = 0.0
        if not self._reaching:
            free = len(state.active_requests) < self.pool.num_processes
            ignoring = self._ignored.look(now, self._waiting(queue), free, sum(state.total_count.values()))
        return WorkerReport(now - self._sign_at, self._reaching, consuming, queue, ignoring)

    def _waiting(self, queue: str) -> int:
        """Messages; 0 while Redis is away."""
        try:
            return int(self._broker.llen(queue))
        except RedisError:
            return 0

    def on_send_event_buffered(self) -> None:
        # A time instead of a flag: a lost connection cancels the timer, and a later event sets it again.
        now = monotonic()
        if self.hub and now >= self._flush_at_seconds:
            self._flush_at_seconds = now + EVENTS_GATHER_SECONDS
            self.hub.call_later(EVENTS_GATHER_SECONDS, self._flush_events)

    def ensure_connected(self, conn: Any) -> Any:
        self._reaching = True
        self._give_sign()
        ensure = conn.ensure_connection

        def and_give_signs(errback: Any = None, *args: Any, **options: Any) -> Any:
            def away(*said: Any) -> Any:
                self._give_sign()
                return errback(*said)

            return ensure(errback and away, *args, interval_max=RECONNECT_MOST_SECONDS, **options)

        conn.ensure_connection = and_give_signs
        return super().ensure_connected(conn)

    def shutdown(self) -> None:
        """After the last task has ended."""
        self._flush_events()
        super().shutdown()
