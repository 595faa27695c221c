"""Redis fails over under real processes, which know it by an address that follows the primary: the replica is promoted,
passes go on, and what the primary had not replicated is made up for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from tests.e2e.test_redis_away import Stack
from tests.support.sentinel import Failover
from tjworker.base import JobKey, Transient
from tjworker.store.connect import client

pytestmark = pytest.mark.e2e


@pytest.fixture
def failover(tmp_path: Path) -> Iterator[Failover]:
    with Failover(tmp_path) as failover:
        yield failover


@pytest.fixture
def stack(failover: Failover, tmp_path: Path) -> Iterator[Stack]:
    stack = Stack(tmp_path, failover.nodes[0], failover.line, here=failover.url)
    try:
        yield stack
    finally:
        for process in stack.processes.values():
            process.kill()
            process.wait()


@pytest.mark.long
def test_sentinel_promotes_the_replica_of_a_killed_primary_and_passes_go_on(failover: Failover, stack: Stack) -> None:
    failover.watch_over()
    stack.runs("before")
    before = failover.primary
    failover.nodes[0].kill()
    stack.until("the replica is the primary", lambda: failover.primary != before)
    stack.runs("after")
    # The last writes of a primary may be lost. A key whose task is lost is found by the resync.
    lost = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/task-was-not-replicated")
    stack.until("a key is queued without a task", lambda: stack.store.queue.add([lost]) == [lost])
    stack.until("the key runs", lambda: lost in stack.passes())
    stack.until("the worker takes tasks", lambda: stack.probe("worker", "/readyz")[0] == 200)
    stack.until("beat sends", lambda: stack.probe("beat", "/readyz")[0] == 200)
    assert stack.all_alive(), stack.logs()


@pytest.mark.long  # the client alone is held below
def test_connections_to_a_primary_that_was_demoted_are_left_for_the_new_one(failover: Failover, stack: Stack) -> None:
    """For a moment the address still leads to it. It answers, and refuses each write, for as long as the connection
    lasts."""
    stack.runs("before")
    failover.demote()
    with pytest.raises(Transient, match="read-only replica"):
        stack.store.queue.add([JobKey("aitrainingjobs.elasticdeeplearning.ai/default/refused")])
    stack.until("the worker knows", lambda: stack.probe("worker", "/readyz")[0] == 503)
    failover.line.lead_to(failover.nodes[1].port)
    stack.runs("after")
    stack.until("the worker takes tasks", lambda: stack.probe("worker", "/readyz")[0] == 200)
    stack.until("beat sends", lambda: stack.probe("beat", "/readyz")[0] == 200)
    assert stack.all_alive(), stack.logs()


def test_a_client_leaves_a_demoted_primary(failover: Failover) -> None:
    with client(failover.url) as connected:
        connected.set("a", "1")
        failover.demote()
        for _ in range(3):
            with pytest.raises(redis.ReadOnlyError):
                connected.set("a", "2")
        failover.line.lead_to(failover.nodes[1].port)
        with suppress(redis.ReadOnlyError):  # redis-py has connected again at once, a moment too early
            connected.set("a", "3")
        assert connected.set("a", "4")
