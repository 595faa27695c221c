"""Messages and control commands that anybody who may write to Redis can send: a real worker of Celery goes on."""

from __future__ import annotations

import base64
import functools
import json
import resource
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
import redis
from celery.contrib.testing.worker import start_worker

from benchmarks.support.valkey import Valkey
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.app import make_app
from tjworker.settings import Settings
from tjworker.worker import tasks

pytestmark = pytest.mark.xdist_group("hostile-messages")  # they share what its fixture starts or renders

PREFIX = "hostile"


def _message(body: Any = ((), {}, {}), headers: Any = None, **changed: Any) -> dict[str, Any]:
    """As kombu writes one."""
    encoded = base64.b64encode(json.dumps(body).encode()).decode()
    task = {"task": f"{PREFIX}.ran", "id": "1", "lang": "py", "retries": 0, "timelimit": [None, None]}
    return {
        "body": encoded,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": task if headers is None else headers,
        "properties": {
            "delivery_tag": "tag",
            "delivery_info": {"exchange": "", "routing_key": PREFIX},
            "delivery_mode": 2,
            "priority": 0,
            "body_encoding": "base64",
        },
        **changed,
    }


HEADERS = {"task": f"{PREFIX}.ran", "id": "1", "lang": "py"}
BOMB_MB = 200


@functools.cache
def _bomb() -> str:
    """200 KB that inflate to 200 MB. Made where a test needs it: it takes a second, and each process collects the
    tests."""
    return base64.b64encode(zlib.compress(b'[[], {}, {"callbacks": "' + b" " * (BOMB_MB << 20) + b'"}]', 9)).decode()


def _with(**headers: Any) -> dict[str, Any]:
    return _message(headers={**HEADERS, **headers})


BOMBS: dict[str, dict[str, Any]] = {
    "a compressed body": {"headers": {**HEADERS, "compression": "application/x-gzip"}},
    "a compressed body by another name": {"headers": {**HEADERS, "compression": "zlib"}},
    "a body in an encoding that inflates": {"content-encoding": "zlib_codec"},
}
LONG = 2 << 20
REQUEST = "tjworker.worker.consumer:TaskRequest"
MESSAGES: dict[str, Any] = {
    "not JSON": b"{",
    "an argument that is long": _message((["x" * LONG], {}, {})),
    "a header that is long": _with(argsrepr="x" * LONG),
    "an id that is long": _with(id="x" * LONG),
    "a property that is long": _message(properties={**_message()["properties"], "correlation_id": "x" * LONG}),
    "long, and no JSON": b"x" * LONG,
    "not text": b"\xff\xfe",
    "nothing": b"",
    "a number": 7,
    "a list": [],
    "null": None,
    "an empty object": {},
    "nested deep": b"[" * 5_000 + b"]" * 5_000,
    "no properties": {"body": "", "headers": {}},
    "properties of another type": _message(properties=[]),
    "no delivery tag": _message(properties={"delivery_info": {}}),
    "a delivery tag of another type": _message(properties={"delivery_tag": ["x"], "body_encoding": "base64"}),
    "no headers": _message(headers={}),
    "headers of another type": _message(headers=[1]),
    "a task that nobody knows": _message(headers={**HEADERS, "task": "other"}),
    "a task that is a list": _message(headers={**HEADERS, "task": ["x"]}),
    "an id that is an object": _message(headers={**HEADERS, "id": {}}),
    "no body": _message(body=None, headers={}) | {"body": None},
    "a body that is no base64": _message() | {"body": "%%%"},
    "a body of another type": _message() | {"body": 7},
    "arguments of another type": _message([1, 2, 3]),
    "a coding that nobody knows": _message(**{"content-encoding": "x-none"}),
    "a type that is not accepted": _message(**{"content-type": "application/x-python-serialize"}),
    "a time that is none": _message(headers={**HEADERS, "eta": "tomorrow"}),
    "an end that is none": _message(headers={**HEADERS, "expires": ["x"]}),
    "limits that are none": _message(headers={**HEADERS, "timelimit": "x"}),
    "a limit that is no finite number": _with(timelimit=[float("nan"), float("nan")]),
    "a limit without end": _with(timelimit=[float("inf"), None]),
    "a limit in the past": _with(timelimit=[-1, -1]),
    "a limit of a moment, which would kill a child at each task": _with(timelimit=[0.001, None]),
    "a soft limit, which would send a signal to a child": _with(timelimit=[None, 5]),
    "stamps that cannot be compared": _with(stamped_headers=[["x"]]),
    "stamps": _with(stamped_headers=["x"], stamps={"x": "y"}),
    "retries that are a list": _with(retries=[1]),
    "retries without end": _with(retries=2**70),
    "a group that is an object": _with(group={}),
    "a header that is nested deep": _with(origin={"a": {"b": {"c": {}}}}),
    "a header that is no finite number": _with(other=float("-inf")),
    "a property that is no finite number": _message(properties={**_message()["properties"], "priority": float("nan")}),
    "an argument that is no finite number": _message(([float("nan")], {}, {})),
    "an argument that is a number": _message(([1], {}, {})),
    "two arguments": _message((["a", "b"], {}, {})),
    "named arguments": _message(([], {"key": "a"}, {})),
    "a task to be called afterwards": _message(([], {}, {"callbacks": [{"task": f"{PREFIX}.ran", "args": []}]})),
    "text in another encoding": _message(**{"content-encoding": "utf-16"}),
    "a body in an encoding of bytes": _message(**{"content-encoding": "hex_codec"}),
    "a task of Celery's own": _with(task="celery.accumulate"),
    "another task of Celery's own": _with(task="celery.map"),
    "protocol 1 without arguments": _message({"task": f"{PREFIX}.ran", "id": "1"}, headers={}),
    "protocol 1 with wrong arguments": _message(
        {"task": f"{PREFIX}.ran", "id": "1", "args": 7, "kwargs": 8}, headers={}
    ),
}


GOOD: dict[str, Any] = {
    "as it is sent to it": _message(),
    "with the hard limit that Celery writes into it": _with(timelimit=[60.0, None]),
    "with an argument as long as a name in Kubernetes may be": _message((["x" * 253], {}, {})),
    "with one text as its argument": _message((["a key"], {}, {"callbacks": None, "errbacks": None})),
    "with all that Celery says of itself": _with(
        retries=0, group=None, group_index=None, stamped_headers=None, stamps={}, replaced_task_nesting=0, eta=None
    ),
    "with a header of a later version": _with(from_the_future="x"),
    "with a property of a later version": _message(properties={**_message()["properties"], "from_the_future": 2}),
}


class Place:
    """One worker with one slot, and what has run in it."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.app = make_app(Settings(redis_url=url, key_prefix=PREFIX))
        self.app.conf.include = ()
        self.redis: Any = stack.enter_context(redis.Redis.from_url(url))
        self._ran = threading.Semaphore(0)

        @self.app.task(name=f"{PREFIX}.good", Request=tasks.reconcile.Request)  # type: ignore[untyped-decorator,unused-ignore]
        def good() -> None:
            self._ran.release()

        self.runs: list[Any] = []

        @self.app.task(name=f"{PREFIX}.ran", Request=tasks.reconcile.Request)  # type: ignore[untyped-decorator,unused-ignore]
        def ran(*told: Any) -> None:
            """Of messages that are read after all."""
            self.runs.append(told)

        self._good = good
        worker = start_worker(
            self.app, pool="threads", concurrency=1, perform_ping_check=False, shutdown_timeout=PATIENCE_SECONDS
        )
        stack.enter_context(worker)
        self._heard = threading.Semaphore(0)
        threading.Thread(target=self._listen, daemon=True).start()

    def serves(self) -> bool:
        """It takes a task and runs it."""
        self._good.delay()
        return self._ran.acquire(timeout=PATIENCE_SECONDS)

    def _listen(self) -> None:
        """To events, as Flower does."""
        handlers = {"worker-hello": lambda event: self._heard.release()}
        # Redis is stopped at the end of these tests.
        with suppress(redis.RedisError, OSError), self.app.connection_for_read() as connection:
            self.app.events.Receiver(connection, handlers=handlers).capture(limit=None, timeout=None, wakeup=False)

    def hears(self) -> bool:
        """The listener. What comes before it has subscribed is lost."""
        with self.app.events.default_dispatcher(hostname="other") as dispatcher:
            for _ in range(100):
                dispatcher.send("worker-hello")
                if self._heard.acquire(timeout=PATIENCE_SECONDS / 100):
                    return True
        return False

    def listening(self) -> set[str]:
        """Connections that are subscribed to anything."""
        return {client["id"] for client in self.redis.client_list(_type="pubsub")}

    def waiting(self) -> int:
        return int(self.redis.llen(PREFIX))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with ExitStack() as stack:
        server = stack.enter_context(Valkey(tmp_path_factory.mktemp("valkey")))
        yield Place(server.url, stack)


@pytest.mark.parametrize("sentence", MESSAGES)
def test_a_worker_outlives_every_message(sentence: str, place: Place) -> None:
    message = MESSAGES[sentence]
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    for _ in range(3):  # more than it has slots
        place.redis.lpush(PREFIX, raw)
    assert place.serves()
    assert place.waiting() == 0, "it does not come back"
    assert place.runs == []


@pytest.mark.parametrize("sentence", GOOD)
def test_a_task_is_run(sentence: str, place: Place) -> None:
    place.redis.lpush(PREFIX, json.dumps(GOOD[sentence]))
    assert place.serves()
    assert len(place.runs) == 1
    place.runs.clear()


@pytest.mark.parametrize("sentence", MESSAGES)
def test_a_worker_outlives_every_message_of_its_control_mailbox(sentence: str, place: Place) -> None:
    message = MESSAGES[sentence]
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    listening = place.listening()
    assert place.redis.publish(f"/0.{PREFIX}.control.pidbox", raw), "somebody listens"
    assert place.serves()
    assert place.listening() == listening, "it does not open its mailbox again: what is sent meanwhile would be lost"


@pytest.mark.parametrize("sentence", MESSAGES)
def test_who_listens_to_events_outlives_every_message(sentence: str, place: Place) -> None:
    assert place.hears()
    message = MESSAGES[sentence]
    raw = message if isinstance(message, bytes) else json.dumps(message).encode()
    assert place.redis.publish(f"/0.{PREFIX}.events/worker.hello", raw), "somebody listens"
    assert place.hears()


@pytest.mark.parametrize("sentence", BOMBS)
def test_a_message_is_refused_before_it_is_inflated(sentence: str, place: Place) -> None:
    raw = json.dumps(_message(**BOMBS[sentence]) | {"body": _bomb()})
    assert len(raw) < 1 << 20
    assert place.hears()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    place.redis.lpush(PREFIX, raw)
    assert place.redis.publish(f"/0.{PREFIX}.control.pidbox", raw)
    assert place.redis.publish(f"/0.{PREFIX}.events/worker.hello", raw)
    assert place.serves()
    assert place.hears()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < BOMB_MB * 1024 / 2


HUGE_MB = 60


def test_a_message_is_refused_before_its_text_is_read(place: Place) -> None:
    """It is held as often as the client of Redis holds what it receives, and not as text and as JSON as well."""
    raw = json.dumps(_message((["x" * (HUGE_MB << 20)], {}, {}))).encode()
    assert place.hears()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    place.redis.lpush(PREFIX, raw)
    assert place.serves()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 3 * len(raw) / 1024


CONTROLS = (
    "cancel_consumer",
    "pool_shrink",
    "rate_limit",
    "time_limit",
    "shutdown",
    "revoke",
    "terminate",
    "autoscale",
)


@pytest.mark.parametrize("command", CONTROLS)
def test_a_command_that_would_stop_a_worker_is_not_known(command: str, place: Place) -> None:
    place.app.control.broadcast(command, arguments={"queue": PREFIX, "n": 1, "task_name": f"{PREFIX}.good"})
    assert place.app.control.ping(timeout=PATIENCE_SECONDS, limit=1)
    assert place.serves()
