"""A job whose writes hang (a webhook that is away or slow) costs its own turns: each pass is bounded, and between two
of them everybody else has one. Time is virtual."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.world import World, job, play, role
from tests.support.passes import reconcile_key
from tjworker.base import JobKey, OperatorError, Transient
from tjworker.controllers.pass_end import EndedPass, describe_passes
from tjworker.execution.executor import PASS_SECONDS
from tjworker.settings import Settings

GOOD = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/good")
PAGE_SECONDS = 6.0
REQUEST_SECONDS = Settings().request_timeout_seconds


class Room:
    """`slow` has 20 trainers, and each write that names it takes `seconds`; `error` is how it ends."""

    def __init__(self, seconds: float, error: OperatorError | None = None) -> None:
        self.world = World(nodes=4, seed=1, keys_per_task=1)
        self.world.apply(job({"trainer": role(20)}, "slow")).apply(job({"trainer": role(1)}, "good")).watch()
        self.passes: list[tuple[str, float]] = []
        request = self.world.api._transport.request

        def slowly(method: str, path: str, **more: Any) -> Any:
            if method != "GET" and "events" not in path and b"slow" in (more.get("body") or b"") + path.encode():
                self.world.clock.now_seconds += seconds
                if error is not None:
                    raise error
            return request(method, path, **more)

        self.world.api._transport.request = slowly  # type: ignore[method-assign]

    def turn(self) -> str:
        """One task, whichever key it serves."""
        began = self.world.clock()
        result = reconcile_key(self.world.worker, GOOD)
        self.passes.append((result, self.world.clock() - began))
        self.world.watch()
        return result


def test_a_job_whose_creates_are_slow_joins_the_line_again_and_gets_all_its_pods_in_the_end() -> None:
    room = Room(seconds=3)
    results = [room.turn() for _ in range(40)]
    assert results[0].startswith("Pending, created 1 pod, 1 service"), "the other job"
    assert "more when it is its turn again" in results[1]
    assert room.world.store.queue.stats().failing == 0
    assert max(seconds for _, seconds in room.passes) < PASS_SECONDS + 3
    assert len([name for name in room.world.pods() if name.startswith("slow-")]) == 20


def test_a_pass_whose_reads_are_slow_is_bounded_and_lets_go_of_its_key() -> None:
    """Of several in a task none has a signal of its own: it looks at the time between its reads."""
    world = World(nodes=4, seed=1, list_page_size=1)
    world.apply(job({"trainer": role(12, annotations=play(run_seconds=5, exit_code=1))})).run()
    request, run = world.api._transport.request, world.worker.run
    passes: list[tuple[str, float]] = []

    def slowly(method: str, path: str, **more: Any) -> Any:
        if method == "GET" and path.endswith("/pods"):
            world.clock.now_seconds += PAGE_SECONDS
        return request(method, path, **more)

    def timed(text: str) -> list[EndedPass]:
        began = world.clock()
        ended = run(text)
        passes.append((describe_passes(ended, text), world.clock() - began))
        return ended

    world.api._transport.request, world.worker.run = slowly, timed  # type: ignore[method-assign]
    world.advance(10).run()
    assert any("the pass took longer than 30 s" in result for result, _ in passes), "twelve pages take longer"
    assert max(seconds for _, seconds in passes) <= Settings().task_soft_time_limit_seconds + PAGE_SECONDS
    assert world.store.queue.stats().running == 0
    world.api._transport.request = request  # type: ignore[method-assign]
    world.until("it is over", lambda: world.phase() == "Failed")


@pytest.mark.parametrize("seconds", [PASS_SECONDS, REQUEST_SECONDS])
def test_a_job_none_of_whose_writes_is_answered_waits_longer_each_time(seconds: float) -> None:
    room = Room(seconds, Transient("no answer in time"))
    room.turn()
    while sum("no answer" in result for result, _ in room.passes) < 4:
        while room.world.store.queue.stats().queued == 0:
            room.world.clock.now_seconds += 1
            room.world.store.queue.take_due(10)
        room.turn()
    slow = [took for result, took in room.passes if "no answer" in result]
    assert slow == [seconds] * 4, "one write a pass"
    assert room.world.store.queue.stats().failing == 1
