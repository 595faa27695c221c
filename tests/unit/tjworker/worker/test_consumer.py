"""Task events of a worker: gathered for a moment, never forgotten. And what its probes are told of messages that
wait."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker.consumer import Consumer as CeleryConsumer
from celery.worker.consumer import Mingle
from kombu.connection import Connection
from redis.exceptions import RedisError
from structlog.testing import capture_logs

from benchmarks.support.valkey import Valkey
from tjworker.app import make_app
from tjworker.settings import Settings
from tjworker.store.connect import client
from tjworker.telemetry.redis_outage import RedisOutage
from tjworker.telemetry.worker_health import IGNORING_LIMIT_SECONDS, USELESS_LIMIT_SECONDS, IgnoredMessages, Lasting
from tjworker.worker import consumer
from tjworker.worker.broker import Channel
from tjworker.worker.consumer import EVENTS_GATHER_SECONDS, RECONNECT_MOST_SECONDS, Consumer


class Hub:
    """Timers that go off when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.timers.append((seconds, callback))


class World:
    """A consumer with a real dispatcher on a real Redis; `sent` are the sizes of the messages that a listener got."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(consumer, "monotonic", lambda: self.now)
        app = make_app(Settings(redis_url=url))
        self.consumer: Any = object.__new__(Consumer)
        self.consumer.hub = self.hub = Hub()
        self.sent: list[int] = []
        dispatcher = app.events.Dispatcher(
            app.connection_for_write(), buffer_group=["task"], on_send_buffered=self.consumer.on_send_event_buffered
        )
        publish = dispatcher._publish

        def counted(event: Any, *rest: Any, **named: Any) -> None:
            self.sent.append(len(event) if isinstance(event, list) else 1)
            publish(event, *rest, **named)

        dispatcher._publish = counted
        self.consumer.event_dispatcher = self.dispatcher = dispatcher

    def event(self) -> None:
        self.dispatcher.send("task-started", uuid="1")

    def timer(self) -> None:
        seconds, callback = self.hub.timers.pop()
        assert seconds == EVENTS_GATHER_SECONDS
        self.now += seconds
        callback()


@pytest.fixture
def world(own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(own_valkey.url, monkeypatch)


def test_the_events_of_a_moment_are_one_message(world: World) -> None:
    for _ in range(3):
        world.event()
    assert (world.sent, len(world.hub.timers)) == ([], 1)
    world.timer()
    assert world.sent == [3]
    world.event()
    world.timer()
    assert world.sent == [3, 1]


def test_a_timer_that_went_with_its_connection_is_set_again(world: World) -> None:
    world.event()
    world.hub.timers.clear()
    world.event()
    assert not world.hub.timers
    world.now += EVENTS_GATHER_SECONDS
    world.event()
    world.timer()
    assert world.sent == [3]


def test_workers_run_it() -> None:
    app = make_app(Settings())
    assert app.Worker(pool="solo").consumer_cls == "tjworker.worker.consumer:Consumer"


def starting(app: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A consumer that has been started but for Celery's part, and its step that asks the other workers."""
    monkeypatch.setattr(CeleryConsumer, "start", lambda self: None)
    monkeypatch.setattr(consumer, "open_health", lambda *_: None)
    monkeypatch.setattr(consumer, "start_thread", lambda _: None)
    mingle, made = object.__new__(Mingle), object.__new__(Consumer)
    made.steps, made.app, made.hostname, made.pool = [object(), mingle], app, "me", None
    made.start()
    return made, mingle


def test_a_worker_that_starts_asks_the_others_by_a_connection_that_waits_a_tenth_of_a_second(
    own_valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumer's own would wait for a second, in which no task is taken."""
    waits: list[float] = []
    start: Any = Channel._brpop_start

    def noted(channel: Any, *rest: Any) -> Any:
        waits.append(channel.brpop_timeout)
        return start(channel, *rest)

    monkeypatch.setattr(Channel, "_brpop_start", noted)
    with make_app(Settings(redis_url=own_valkey.url)) as app:
        made, mingle = starting(app, monkeypatch)
        assert mingle.send_hello(made) == {}
    assert set(waits) == {0.1}


def test_a_broker_that_is_away_is_asked_again_every_few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it has been away: Celery's own waits are 2, 4, 6 ... 30 s."""
    slept = 0.0
    ends: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds

    class Away(Exception):
        pass

    class Broker(Connection):  # type: ignore[misc,unused-ignore]
        def _connection_factory(self) -> Any:
            ends.append(slept)
            if len(ends) == 12:
                raise Away
            raise OSError("connection refused")

    monkeypatch.setattr("kombu.utils.functional.sleep", sleep)
    broker: Any = Broker
    one: Any = object.__new__(Consumer)
    one.app, one.first_connection_attempt, one.broker_connection_retry_attempt = make_app(Settings()), False, 0
    one._outage = RedisOutage(())
    with pytest.raises(Away):
        one.ensure_connected(broker("redis://127.0.0.1:1"))
    waits = [after - before for before, after in itertools.pairwise(ends)]
    assert set(waits) == {RECONNECT_MOST_SECONDS}


@dataclass(frozen=True)
class Busy:
    want_ill: bool
    active: int = 0
    waiting: int | None = 3
    takes: int = 0
    """Tasks, between two looks."""
    reaching: bool = False


BUSY = {
    "all processes are free, and messages wait": Busy(True),
    "one process is free, and messages wait": Busy(True, active=3),
    "all processes are busy with long passes": Busy(False, active=4),
    "all processes are free, and nothing waits": Busy(False, waiting=0),
    "it takes one task after another": Busy(False, active=3, takes=1),
    "Redis does not answer": Busy(False, waiting=None),
}


@pytest.mark.parametrize("sentence", BUSY)
def test_only_a_worker_with_a_free_process_ignores_messages(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at every 20 s for five minutes."""
    case = BUSY[sentence]
    one: Any = object.__new__(Consumer)
    one.app, one.pool = make_app(Settings()), SimpleNamespace(num_processes=4)
    one.task_consumer = SimpleNamespace(consuming_from=lambda queue: True)
    one._ignored, one._answers, one._reaching = IgnoredMessages(), Lasting(100), case.reaching
    tasks = SimpleNamespace(active_requests=set(range(case.active)), total_count={"work": 7})
    monkeypatch.setattr(consumer, "state", tasks)

    def count_waiting() -> int:
        if case.waiting is None:
            raise RedisError
        return case.waiting

    told = []
    for now in range(1000, 1301, 20):
        monkeypatch.setattr(consumer, "monotonic", lambda now=now: float(now))
        one._give_sign()
        one.look(float(now), count_waiting)
        told.append(bool(one.report().problems()))
        tasks.total_count["work"] += case.takes
    assert not any(told[: int(IGNORING_LIMIT_SECONDS) // 20 + 1])
    assert any(told) is case.want_ill


@dataclass(frozen=True)
class Watched:
    """A worker whose watchdog looks every two seconds for five minutes."""

    want_end: str
    """Of the words with which it ends itself; empty: it goes on."""
    consuming: bool = True
    reaching: bool = False
    redis_answers: bool = True
    told_to_stop: bool = False
    works: bool = False
    """A child has a task."""
    want_exit_code: int = 1
    want_after_seconds: float = USELESS_LIMIT_SECONDS


WATCHED = {
    "a worker that consumes goes on": Watched(""),
    "one that consumes nothing ends itself": Watched("it does not consume the queue tj", consuming=False),
    "one that still tries to reach a Redis that answers others ends itself": Watched(
        "it has not begun to consume", reaching=True
    ),
    "one that waits for Redis goes on": Watched("", reaching=True, redis_answers=False),
    "one that consumes nothing while Redis is away goes on": Watched("", consuming=False, redis_answers=False),
    "one that was told to stop and does not, although Redis answers, ends itself": Watched(
        "asked to stop and has not within 70 s", told_to_stop=True, want_after_seconds=70
    ),
    "one that was told to stop while Redis is silent ends in order": Watched(
        "asked to stop, and Redis does not answer",
        told_to_stop=True,
        redis_answers=False,
        reaching=True,
        want_exit_code=0,
        want_after_seconds=consumer.STOP_WITHOUT_REDIS_SECONDS,
    ),
    "one that was told to stop while Redis is silent first lets a task end": Watched(
        "asked to stop, and Redis does not answer",
        told_to_stop=True,
        redis_answers=False,
        works=True,
        want_exit_code=0,
        want_after_seconds=consumer.STOP_WITHOUT_REDIS_SECONDS + Settings().task_soft_time_limit_seconds,
    ),
}


@pytest.mark.parametrize("sentence", WATCHED)
def test_the_watchdog(sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = WATCHED[sentence]

    class Ended(BaseException):
        pass

    now = [1000.0]
    one: Any = object.__new__(Consumer)
    one.app, one.pool = make_app(Settings()), SimpleNamespace(num_processes=4)
    one.task_consumer = SimpleNamespace(consuming_from=lambda queue: case.consuming)
    one._ignored, one._answers, one._reaching = IgnoredMessages(), Lasting(consumer.STALE_SECONDS), case.reaching
    told = 0 if case.told_to_stop else None
    active = ("a request",) if case.works else ()
    tasks = SimpleNamespace(active_requests=active, total_count={}, should_stop=told, should_terminate=None)
    monkeypatch.setattr(consumer, "state", tasks)
    monkeypatch.setattr(consumer, "monotonic", lambda: now[0])
    codes: list[int] = []
    signed_in: list[list[str]] = []
    one.leave = codes.append

    def ask(_redis: Any, _queue: str, processes: list[str]) -> int:
        signed_in.append(processes)
        one._give_sign()
        if not case.redis_answers:
            raise RedisError
        return 0

    def wait(_: Any, seconds: float) -> None:
        now[0] += seconds
        if now[0] > 1300:
            raise Ended

    monkeypatch.setattr(consumer, "ask", ask)
    monkeypatch.setattr(threading.Event, "wait", wait)
    with capture_logs() as logs, suppress(Ended):
        one._look_on(Settings())
    assert signed_in[0] == [f"{socket.gethostname()}/{os.getpid()}"]
    assert codes == ([case.want_exit_code] if case.want_end else [])
    if case.want_end:
        assert case.want_end in logs[-1]["event"]
        assert now[0] - 1000 == pytest.approx(case.want_after_seconds, abs=2 * consumer.LOOK_SECONDS)


@pytest.mark.parametrize("told", ["REPLICAOF 127.0.0.1 1", ""])
def test_a_redis_that_takes_no_writes_does_not_answer_the_watchdog(told: str, own_valkey: Valkey) -> None:
    """A worker that can take nothing from a queue would otherwise be restarted again and again, to no avail."""
    with client(own_valkey.url) as redis:
        redis.lpush("tj", "a message")
        assert consumer.ask(redis, "tj") == 1
        if told:
            redis.execute_command(*told.split())
            with pytest.raises(RedisError):
                consumer.ask(redis, "tj")
        else:
            own_valkey.kill()
            with pytest.raises(RedisError):
                consumer.ask(redis, "tj")


def test_a_slot_is_given_back_and_the_message_acknowledged_whatever_celery_raises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    acts: list[str] = []

    def begin(request: Any) -> None:
        raise TypeError("unhashable type: 'list'")

    controller = SimpleNamespace(_process_task=begin, _quick_release=lambda: acts.append("released"))
    consumer.give_slots_back(controller)
    request = SimpleNamespace(acknowledge=lambda: acts.append("acknowledged"), id="1", name="work")
    monkeypatch.setattr("tjworker.worker.consumer.state.task_ready", lambda _: acts.append("forgotten"))
    controller._process_task(request)
    assert acts == ["acknowledged", "forgotten", "released"]
