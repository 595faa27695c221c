"""Beat's tasks do not wait behind the keys: a real worker of Celery, in this process, on a real Redis."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest
import redis
from celery.contrib.testing.worker import start_worker

from benchmarks.support.valkey import Valkey
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.app import make_app, periodic_queue
from tjworker.publisher import AUTOSCALE, COLLECT_ORPHANS, RECONCILE, RESYNC
from tjworker.settings import Settings

PREFIX = "rounds"
KEYS = 20


@pytest.mark.parametrize(
    ("task", "queue"),
    [(RECONCILE, "blue"), (RESYNC, "blue.periodic"), (COLLECT_ORPHANS, "blue.periodic"), (AUTOSCALE, "blue.periodic")],
)
def test_each_task_goes_to_its_queue_which_a_worker_consumes_without_being_told(task: str, queue: str) -> None:
    app = make_app(Settings(key_prefix="blue"))
    assert app.amqp.router.route({}, task)["queue"].name == queue
    assert queue in app.amqp.queues.consume_from


def test_a_periodic_task_has_the_next_turn_however_many_keys_wait(own_valkey: Valkey) -> None:
    app = make_app(Settings(redis_url=own_valkey.url, key_prefix=PREFIX))
    app.conf.include = ()
    ran: list[str] = []
    done = threading.Event()

    # Names of its own: whoever has imported tjworker.worker.tasks has those of every app.
    @app.task(name=f"{PREFIX}.key")  # type: ignore[untyped-decorator,unused-ignore]
    def key(number: int) -> None:
        note(f"key {number}")

    @app.task(name="tjworker.a-periodic-one")  # type: ignore[untyped-decorator,unused-ignore]
    def periodic() -> None:
        note("periodic")

    def note(what: str) -> None:
        ran.append(what)
        if len(ran) > KEYS:
            done.set()

    keys = [f"key {number}" for number in range(KEYS)]
    for number in range(KEYS):
        key.delay(number)
    periodic.delay()
    with ExitStack() as stack:
        server = stack.enter_context(redis.Redis.from_url(own_valkey.url))
        assert (server.llen(PREFIX), server.llen(periodic_queue(PREFIX))) == (KEYS, 1)
        stack.enter_context(
            start_worker(
                app, pool="threads", concurrency=1, perform_ping_check=False, shutdown_timeout=PATIENCE_SECONDS
            )
        )
        assert done.wait(PATIENCE_SECONDS), ran
    assert ran.index("periodic") <= 1, ran
    assert [what for what in ran if what != "periodic"] == keys
