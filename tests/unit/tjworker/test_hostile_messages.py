"""Messages and control commands that anybody who may write to Redis can send: a real worker of Celery goes on."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis
from celery.contrib.testing.worker import start_worker

from benchmarks.support.valkey import Valkey
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.app import make_app
from tjworker.consumer import REQUEST
from tjworker.settings import Settings

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
MESSAGES: dict[str, Any] = {
    "not JSON": b"{",
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
    "protocol 1 without arguments": _message({"task": f"{PREFIX}.ran", "id": "1"}, headers={}),
    "protocol 1 with wrong arguments": _message(
        {"task": f"{PREFIX}.ran", "id": "1", "args": 7, "kwargs": 8}, headers={}
    ),
}


class Place:
    """One worker with one slot, and what has run in it."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self.app = make_app(Settings(redis_url=url, key_prefix=PREFIX))
        self.app.conf.include = ()
        self.redis: Any = stack.enter_context(redis.Redis.from_url(url))
        self._ran = threading.Semaphore(0)

        @self.app.task(name=f"{PREFIX}.good", Request=REQUEST)  # type: ignore[untyped-decorator,unused-ignore]
        def good() -> None:
            self._ran.release()

        @self.app.task(name=f"{PREFIX}.ran", Request=REQUEST)  # type: ignore[untyped-decorator,unused-ignore]
        def ran(*_: Any) -> None:
            """Of messages that are read after all."""

        self._good = good
        worker = start_worker(
            self.app, pool="threads", concurrency=1, perform_ping_check=False, shutdown_timeout=PATIENCE_SECONDS
        )
        stack.enter_context(worker)

    def serves(self) -> bool:
        """It takes a task and runs it."""
        self._good.delay()
        return self._ran.acquire(timeout=PATIENCE_SECONDS)

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


def test_what_asks_is_answered(place: Place) -> None:
    answers = place.app.control.inspect(timeout=PATIENCE_SECONDS, limit=1)
    assert answers.stats()
    assert answers.active_queues()
    place.app.control.enable_events()
    assert place.serves()
