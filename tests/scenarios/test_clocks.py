"""Workers on machines whose clocks are wrong: no job ends early, and none is marked with a time that has not come."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.support.in_turn import assemble_in_turn
from tests.scenarios.world import World, job, play, role
from tjworker.api.timefmt import from_rfc3339
from tjworker.clock import ClusterClock
from tjworker.worker.runtime import Runtime

HOUR = 3600.0


class WrongClocks(World):
    """Each worker's machine has a clock of its own."""

    def __init__(self, ahead_seconds: float) -> None:
        self.ahead_seconds = ahead_seconds
        super().__init__()

    def make_runtime(self, owner: str) -> Runtime:
        def monotonic() -> float:
            return self.clock() - began

        began = self.clock() - 17.0
        clock = ClusterClock(wall=lambda: self.clock() + self.ahead_seconds, monotonic=monotonic)
        return assemble_in_turn(self.settings, self.store, self.api, self.queue, owner=owner, clock=clock)


LIMITS: dict[str, tuple[dict[str, Any], str]] = {
    "timeLimit": ({"timeLimit": 200}, "Timeout"),
    "activeDeadlineSeconds": ({"runPolicy": {"activeDeadlineSeconds": 200}}, "Failed"),
}


@pytest.mark.parametrize("ahead_seconds", [300.0, -300.0, 5 * HOUR])
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_ends_a_job_when_it_has_passed_and_not_before(limit: str, ahead_seconds: float) -> None:
    spec, end = LIMITS[limit]
    world = WrongClocks(ahead_seconds)
    world.apply(job({"trainer": role(2, annotations=play())}, **spec)).run()
    assert from_rfc3339(world.status()["startTime"]) == pytest.approx(world.clock(), abs=5)
    world.advance(180)
    assert world.phase() == "Running"
    world.advance(30)
    assert world.phase() == end


@pytest.mark.parametrize("ahead_seconds", [300.0, -300.0])
def test_a_finished_job_is_deleted_when_its_ttl_has_passed_and_not_before(ahead_seconds: float) -> None:
    ttl = {"ttlSecondsAfterFinished": 60}
    world = WrongClocks(ahead_seconds)
    world.apply(job({"trainer": role(1, annotations=play(run_seconds=2))}, runPolicy=ttl)).run().advance(10)
    assert world.phase() == "Succeed"
    world.advance(40)
    assert world.phase() == "Succeed"
    world.advance(20)
    assert "digits" not in world.jobs()
