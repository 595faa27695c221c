"""Celery's consumer (the loop of a worker's main process), with these changes. The app selects it with the setting
`worker_consumer`.

- Task events go out in groups. The events, their order and their times remain Celery's. A no-op task costs a worker's
  main process 1.1 ms instead of 2.0 (docs/internals/performance.md).
- The waits between two tries to reach Redis, and for the other workers at each start, are short. Messages of the
  children are read before a hard time limit ends a task. An outage is logged once.
- A message that no process of this operator would send is refused before it takes a slot. A slot is given back whatever
  error Celery raises. The remote control keeps the commands that ask, and few others.
- A thread asks Redis whether messages wait. Probes and metrics answer from memory. A worker that takes no task although
  Redis answers ends itself.
- Flower gets more facts about a task that did not succeed (`TaskRequest`).
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

import structlog
from celery.concurrency.asynpool import AsynPool
from celery.exceptions import InvalidTaskError
from celery.signals import celeryd_after_setup
from celery.utils.log import get_logger
from celery.worker import state
from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.consumer import Mingle
from celery.worker.control import Panel, inspect_command
from celery.worker.request import Request
from kombu.exceptions import KombuError
from redis.exceptions import RedisError

from tjworker.settings import Settings, load_settings
from tjworker.store.connect import client
from tjworker.store.keys import BY_NAME, WORKERS_TTL_SECONDS
from tjworker.telemetry import metrics, scrape
from tjworker.telemetry.health import open_health
from tjworker.telemetry.metrics import CONSUMING, Sample
from tjworker.telemetry.redis_outage import OneLine, RedisOutage
from tjworker.telemetry.worker_health import USELESS_LIMIT_SECONDS, IgnoredMessages, Lasting, WorkerReport
from tjworker.worker.broker import describe_refusal, log_refusal

log = structlog.get_logger(__name__)

EVENTS_GATHER_SECONDS = 0.2
"""Delay before events are sent. Flower shows a task later, with its true times, which the events carry. Celery's
dispatcher sends a full buffer (24 events) at once."""

RECONNECT_MOST_SECONDS = 1.0
"""Between two tries to reach the broker. Celery's own waits grow to 30 s, and no setting bounds them: after a long
outage of Redis a worker would take no task for that long. The time-out of connecting is 3 s (`transport_options`), and
the kernel repeats the first packet after 1 s, so a worker notices within 3 s that the network is back."""
LOOK_SECONDS = 2.0
STALE_SECONDS = 2.5 * LOOK_SECONDS
"""Redis counts as away when it has not answered for longer, although the present call has not failed yet (8 s)."""
LOOP_GAP_SECONDS = 20.0
"""Between two looks the watchdog calls Redis once, for at most 11 s. After a longer gap the process was stopped."""
STOP_SECONDS = 10.0
"""A worker that still runs this long after SIGTERM and the hard limit of a task ends at once. That is within its grace
period (`terminationGracePeriodSeconds`, 75 s)."""
STOP_WITHOUT_REDIS_SECONDS = 5.0
"""Until a worker ends after SIGTERM while Redis does not answer. Celery checks for the signal between two tries to
reach Redis, and a try does not return while packets are dropped: a worker took 71 s and ended by the limit above."""
CELERYS_LOGGERS = (
    "celery.worker.consumer.consumer",
    "celery.worker.consumer.connection",
    "celery.worker.consumer.events",
    "celery.worker.consumer.gossip",
    "celery.worker.consumer.mingle",
    "celery.worker.consumer.control",
    "celery.worker.control",
    "celery.worker.pidbox",
    "celery.worker.loops",
    "celery.bootsteps",
    "kombu.transport.redis",
    "kombu.transport.virtual.base",
    "kombu.asynchronous.hub",
    "kombu.connection",
    "kombu.pidbox",
)


MINGLE_SECONDS = 0.1
SIGN_SECONDS = 1.0
ENDED_BADLY = frozenset({"task-failed", "task-retried"})
_TEXTS = ("shadow", "root_id", "parent_id", "argsrepr", "kwargsrepr", "expires", "group", "lang", "origin")
_NUMBERS = ("retries", "replaced_task_nesting", "group_index", "ignore_result")
_NONE = ("eta", "stamped_headers", "stamps")
"""Headers that no task here has: a start time, and stamps, by which Celery revokes tasks."""


class TaskRequest(Request):  # type: ignore[misc,unused-ignore]
    """A task's message. Raises InvalidTaskError for a message that no process of this app would send."""

    def __init__(self, message: Any, **options: Any) -> None:
        # Celery would find the fault only when the message holds a slot of the pool, and would never free that slot.
        if wrong := _find_fault(message, options):
            raise InvalidTaskError(wrong)
        super().__init__(message, **options)

    def send_event(self, type: str, **fields: Any) -> None:  # noqa: A002  the base class names it so
        """Send an event of the task; of a periodic task only a bad end."""
        ended_badly = type in ENDED_BADLY
        if ended_badly:
            # Flower searches results and lists them, but shows errors only on the task's page. So the error is sent as
            # the result, too. Name and arguments: a periodic task has sent no event before.
            fields |= {"result": fields.get("exception"), "name": self.name, "args": self.argsrepr}
        eventer = self._eventer
        if eventer and eventer.enabled and (self.task.send_events or ended_badly):
            eventer.send(type, uuid=self.id, **fields)


def _find_fault(message: Any, options: Mapping[str, Any]) -> str:
    """What is wrong with a task's message; '' for a message that this operator's processes would send."""
    headers = options.get("headers") or message.headers
    if options.get("decoded") or not isinstance(headers, dict):
        return "it is of an older protocol"
    if not isinstance(headers.get("id"), str):
        return "its header id is no text"
    for names, kind, what in ((_TEXTS, str, "text"), (_NUMBERS, int, "number")):
        for name in names:
            if not isinstance(headers.get(name), kind | None):
                return f"its header {name} is no {what}"
    for name in _NONE:
        if headers.get(name):
            return f"it has the header {name}; no task here has one"
    return _find_fault_of_call(message.payload, headers.get("timelimit"), options["task"].time_limit)


def _find_fault_of_call(body: Any, limits: Any, hard_limit: float | None) -> str:
    # Celery writes the app's own hard limit into the message if the sending process knows the task.
    if limits not in (None, [None, None], [hard_limit, None]):
        return "its time limits are not this operator's"
    match body:
        case [[] | [str()], {**arguments}, {**calls}] if not arguments and not any(calls.values()):
            return ""
    return "its body is not at most one text, no named arguments, and no tasks to be called afterwards"


@inspect_command()  # type: ignore[untyped-decorator,unused-ignore]
def wall_clock(_: Any) -> dict[str, float]:
    """The time on this worker's machine, in Unix seconds. `tj doctor` compares it with Redis'."""
    return {"seconds": time.time()}


KEPT_CONTROLS = frozenset({"enable_events", "disable_events", "heartbeat", "election"})
"""Commands that change something and are kept: Flower asks for events, and workers elect a leader. With the others
(cancel_consumer, shutdown, rate_limit, time_limit, pool_shrink, revoke ...) any client that can write to Redis could
stop every worker while it still answers pings. Kubernetes stops and scales workers."""


def keep_safe_commands(commands: MutableMapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Remove the commands that neither ask nor are in KEPT_CONTROLS."""
    # `commands` also has aliases, as further names of a function; `kinds` has none.
    kept = [commands[name] for name, kind in kinds.items() if kind.type == "inspect" or name in KEPT_CONTROLS]
    for name in [name for name, command in commands.items() if command not in kept]:
        del commands[name]


keep_safe_commands(Panel.data, Panel.meta)


def ask_other_workers(consumer: Any) -> Any:
    """Worker -> its answer, with the logical clock by which Flower orders events; {} while Redis is away. Called at
    each start. Gossip adds the clocks of workers that answer too late."""
    # Celery's own step waits for a full second, and takes no task meanwhile. It also asks for revoked tasks, which do
    # not exist here. This one uses a connection of its own, on which Redis ends the wait after MINGLE_SECONDS: the
    # consumer's connection waits for a second, and could not ask for tasks before.
    try:
        with consumer.app.connection_for_read(transport_options={"max_retries": 0}) as connection:
            connection.transport.brpop_timeout = MINGLE_SECONDS
            inspect = consumer.app.control.inspect(timeout=MINGLE_SECONDS, connection=connection)
            answers = inspect.hello(consumer.hostname, []) or {}
    except (KombuError, RedisError, OSError):
        # Redis is away. The next step of the start handles that.
        return {}
    answers.pop(consumer.hostname, None)
    return answers


def give_slots_back(controller: Any) -> None:
    """Give a slot of the pool back if its task could not be started. Celery does so only when a task has ended."""
    begin = getattr(controller, "_process_task", None)
    if begin is None:
        return

    def begin_or_give_back(request: Any) -> None:
        try:
            begin(request)
        except Exception as error:  # noqa: BLE001  whatever Celery raises for this message
            log_refusal(describe_refusal(error))
            request.acknowledge()
            state.task_ready(request)
            getattr(controller, "_quick_release", lambda: None)()

    controller._process_task = begin_or_give_back


def read_before_killing(pool: Any) -> None:
    """Read what the children have sent before a hard time limit ends a task."""
    if not isinstance(pool, AsynPool):
        return
    # This process reads nothing while it tries to reach Redis or waits for a silent one. Afterwards its timers run
    # first, and would kill a child whose task has ended.
    kill = pool._on_hard_timeout

    def read_and_kill(job: Any) -> None:
        for process in list(pool._pool):
            pool.process_flush_queues(process)
        kill(job)

    pool._on_hard_timeout = read_and_kill


SIGN_IN = """
-- By Redis' clock: those of the machines differ. Keys  workers
local now = tonumber(redis.call('TIME')[1])
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now, ARGV[i]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[1])
"""


def ask(redis: Any, queue: str, processes: Sequence[str] = ()) -> int:
    """The number of waiting messages. Says at the same time that `processes` run passes, which the page lists. Raises
    RedisError while Redis does not answer or takes no writes: then no message can be taken, and a restart cures
    nothing."""
    pipe = redis.pipeline(transaction=False)
    pipe.llen(queue)
    pipe.rpop(f"{queue}.nothing")  # a write without effect
    if processes:
        # The queue has the prefix of the keys for its name.
        pipe.eval(SIGN_IN, 1, BY_NAME["workers"].of(queue), WORKERS_TTL_SECONDS, *processes)
    waiting, written, *_ = pipe.execute(raise_on_error=False)
    # Not the third answer: the page's list is no reason to call Redis away.
    for answer in (waiting, written):
        if isinstance(answer, Exception):
            raise answer
    return int(waiting)


Leave = Callable[[int], object]
"""Ends the process at once with this exit code: a process that hangs cannot end in order. Its children end too, as
Celery makes the kernel kill them with their parent."""


@celeryd_after_setup.connect  # type: ignore[untyped-decorator,unused-ignore]
def own_process(**_: Any) -> None:
    """Celery sends this signal only from the command `celery worker`, which owns its process. A worker inside another
    process (a test's) must not end that process."""
    Consumer.leave = staticmethod(os._exit)


def start_thread(target: Callable[[], None]) -> None:
    threading.Thread(target=target, name="watchdog", daemon=True).start()


class Consumer(CeleryConsumer):  # type: ignore[misc,unused-ignore]
    """The consumer of a worker. Celery sends three events per task, each in its own message, which is a third of the
    main process's work. Here events share messages."""

    _flush_at_seconds = 0.0
    _sign_at = 0.0
    """When the loop last turned, or the worker last tried to reach Redis."""
    _reaching = True
    _ignoring_seconds = 0.0
    leave: Leave | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._outage = RedisOutage(CELERYS_LOGGERS)
        logging.getLogger("kombu.transport.redis").addFilter(OneLine())
        give_slots_back(self.controller)

    def start(self) -> None:
        """Start threads and the loop."""
        # Celery calls this after the pool has forked: a thread would not survive the fork.
        self._sign_at, self._ignored, self._answers = monotonic(), IgnoredMessages(), Lasting(STALE_SECONDS)
        settings = load_settings()
        try:
            open_health(settings, self.report)
        except OSError:
            # The cause is in the log. A traceback would hide it.
            raise SystemExit(2) from None
        metrics.begin("worker")
        scrape.serve(settings, self.samples, shared=True)
        read_before_killing(getattr(self.pool, "_pool", None))
        start_thread(partial(self._look_on, settings))
        for step in self.steps:
            # Other steps refer to the class Mingle, so a subclass cannot replace it.
            if isinstance(step, Mingle):
                step.send_hello = ask_other_workers
        super().start()

    def register_with_event_loop(self, hub: Any) -> None:
        """Celery calls this at each connection. The timer ends with the connection."""
        super().register_with_event_loop(hub)
        hub.call_repeatedly(SIGN_SECONDS, self._note_turn)

    def _note_turn(self) -> None:
        """Note that the loop turns."""
        # The first call comes a second after connecting. A Redis that accepts connections may still refuse to be read,
        # for example a read-only one: then the outage goes on, and this is not called.
        self._give_sign()
        self._reaching = False
        self._outage.works()

    def _give_sign(self) -> None:
        self._sign_at = monotonic()

    # -- health ------------------------------------------------------------------------------------

    def report(self) -> WorkerReport:
        """The worker's health, from memory, for probes and metrics."""
        queue, consumed, now = self.app.conf.task_default_queue, self.task_consumer, monotonic()
        consuming = consumed is not None and bool(consumed.consuming_from(queue))
        answers = self._answers.seconds(now)
        return WorkerReport(now - self._sign_at, self._reaching, consuming, queue, self._ignoring_seconds, answers)

    def samples(self) -> list[Sample]:
        return [(CONSUMING, {}, int(self.report().ready))]

    def _look_on(self, settings: Settings) -> None:
        """The watchdog's thread. The supervisor starts another worker after exit code 1."""
        redis, queue = client(settings.redis_url), self.app.conf.task_default_queue
        useless, stopping = Lasting(LOOP_GAP_SECONDS), Lasting(LOOP_GAP_SECONDS)
        wait = threading.Event().wait
        while True:
            self.look(monotonic(), lambda: ask(redis, queue, self._processes()))
            now = monotonic()
            stops = any(flag is not None and flag is not False for flag in (state.should_stop, state.should_terminate))
            if end := self._find_end_of_stop(stopping.look(now, stops), settings.task_soft_time_limit_seconds):
                return self._end(*end)
            report = self.report()
            takes_nothing = not stops and self._answers.seconds(now) > 0 and not report.ready
            if useless.look(now, takes_nothing) > USELESS_LIMIT_SECONDS:
                why = "; ".join(report.problems()) or "it has not begun to consume"
                why = f"it takes no task, although Redis has answered for {USELESS_LIMIT_SECONDS:.0f} s: {why}"
                return self._end(1, why)
            wait(LOOK_SECONDS)

    def _processes(self) -> list[str]:
        """The processes that run passes, named as in their leases (`runtime`)."""
        children = getattr(getattr(self.pool, "_pool", None), "_pool", None)
        pids = [child.pid for child in children] if children else [os.getpid()]
        return [f"{socket.gethostname()}/{pid}" for pid in pids]

    def _find_end_of_stop(self, stopping_seconds: float, soft_limit_seconds: float) -> tuple[int, str] | None:
        """(exit code, reason) if the worker must not wait for Celery any more, `stopping_seconds` after the request to
        stop; else None."""
        hangs_seconds = 2 * soft_limit_seconds + STOP_SECONDS
        if stopping_seconds > hangs_seconds:
            return 1, f"it was asked to stop and has not within {hangs_seconds:.0f} s"
        # A pass that still runs ends at the soft limit. Celery does not notice its end: it reads nothing meanwhile.
        most_seconds = STOP_WITHOUT_REDIS_SECONDS + (soft_limit_seconds if state.active_requests else 0)
        if stopping_seconds > most_seconds and not self._answers.seconds(monotonic()):
            return 0, "it was asked to stop, and Redis does not answer; its keys are worked on once their leases lapse"
        return None

    def _end(self, exit_code: int, why: str) -> None:
        log.log(logging.ERROR if exit_code else logging.INFO, f"this worker ends itself: {why}")
        # None in a worker that does not own its process, such as a test's.
        if self.leave is not None:
            self.leave(exit_code)

    def look(self, now: float, count_waiting: Callable[[], int]) -> None:
        """Note whether Redis answers, and for how long messages have waited that this worker does not take."""
        try:
            waiting = count_waiting()
        except RedisError:
            self._answers.look(now, False)
            waiting = 0
        else:
            # The time after the call: Redis has just answered, however long that took.
            self._answers.look(monotonic(), True)
        # A full pool takes nothing, and should not.
        free = not self._reaching and len(state.active_requests) < self.pool.num_processes
        self._ignoring_seconds = self._ignored.look(now, waiting, free, sum(state.total_count.values()))

    def on_send_event_buffered(self) -> None:
        # A time instead of a flag: a lost connection cancels the timer, and a later event sets it again.
        now = monotonic()
        if self.hub and now >= self._flush_at_seconds:
            self._flush_at_seconds = now + EVENTS_GATHER_SECONDS
            self.hub.call_later(EVENTS_GATHER_SECONDS, self._flush_events)

    # -- Redis goes away and comes back --------------------------------------------------------------

    def ensure_connected(self, conn: Any) -> Any:
        self._reaching = True
        self._give_sign()
        ensure = conn.ensure_connection

        def and_give_signs(errback: Any = None, *args: Any, **options: Any) -> Any:
            def away(error: Exception, seconds: float) -> None:
                self._give_sign()
                self._outage.fails(error)

            return ensure(errback and away, *args, interval_max=RECONNECT_MOST_SECONDS, **options)

        conn.ensure_connection = and_give_signs
        return super().ensure_connected(conn)

    def on_connection_error_before_connected(self, exc: Exception) -> None:
        self._note_loss(exc)
        super().on_connection_error_before_connected(exc)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        self._note_loss(exc)
        super().on_connection_error_after_connected(exc)

    def _note_loss(self, error: Exception) -> None:
        self._reaching = True
        self._give_sign()
        self._outage.fails(error)

    # -- messages that are refused: one line each ----------------------------------------------------

    def on_invalid_task(self, body: Any, message: Any, exc: Exception) -> None:
        self._refuse_message(message, str(exc))

    def on_decode_error(self, message: Any, exc: Exception) -> None:
        self._refuse_message(message, describe_refusal(exc))

    def on_unknown_task(self, body: Any, message: Any, exc: Exception) -> None:
        self._refuse_message(message, "it names a task that this operator does not have")

    def on_unknown_message(self, body: Any, message: Any) -> None:
        self._refuse_message(message, "it is no task")

    def _refuse_message(self, message: Any, why: str) -> None:
        log_refusal(why)
        message.reject_log_error(get_logger(__name__), self.connection_errors)

    def shutdown(self) -> None:
        """Celery calls this after the last task has ended."""
        self._flush_events()
        super().shutdown()
