"""A busy worker leaves tasks to the others: a real worker of Celery, in this process, on a real Redis."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import redis
from celery.contrib.testing.worker import start_worker

from benchmarks.support.valkey import Valkey
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.app import make_app
from tjworker.settings import Settings


def test_a_worker_that_is_busy_has_fetched_nothing_else(own_valkey: Valkey) -> None:
    app = make_app(Settings(redis_url=own_valkey.url, key_prefix="prefetch"))
    app.conf.include = ()
    began, may_end = threading.Event(), threading.Event()
    ran: list[int] = []

    @app.task(name="prefetch.long")  # type: ignore[untyped-decorator,unused-ignore]
    def long(number: int) -> None:
        ran.append(number)
        began.set()
        may_end.wait(2 * PATIENCE_SECONDS)

    with ExitStack() as stack:
        server = stack.enter_context(redis.Redis.from_url(own_valkey.url))
        stack.enter_context(
            start_worker(
                app, pool="threads", concurrency=1, perform_ping_check=False, shutdown_timeout=PATIENCE_SECONDS
            )
        )
        stack.callback(may_end.set)
        for number in range(3):
            long.delay(number)
        assert began.wait(PATIENCE_SECONDS)
        # Two questions and their answers: the loop has gone round, and would have fetched what it wants.
        for _ in range(2):
            assert app.control.ping(timeout=PATIENCE_SECONDS, limit=1)
        assert (ran, server.llen("prefetch")) == ([0], 2)
