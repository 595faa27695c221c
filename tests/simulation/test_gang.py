"""A life with a gang: a worker dies at every write to the API server, before it, without its reply and after it. The
group is made before the pods, goes with the job's end, and the life comes to what it comes to undisturbed."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.scenarios.world import job, play, role
from tests.simulation.faults.api_crashes import crash, points, turn
from tests.simulation.oracles import LOST_HOLDER_SECONDS, Allowance, Lag, Whole, judge, live
from tests.simulation.quiet import quiet
from tests.simulation.scenarios import Scenario
from tests.simulation.world import SimWorld
from tjworker.api.resources import POD_GROUPS
from tjworker.kube.resources import RESOURCES

FAILS_FIRST = play(start_seconds=2, run_seconds=60, failing_attempts=1, failing_exit_code=137, failing_run_seconds=30)


class GangWorld(SimWorld):
    """It ends with no group left."""

    left: list[Any]

    def __init__(self, **options: Any) -> None:
        super().__init__(gang_scheduler="kubernetes", **options)

    def forget(self) -> None:
        GangWorld.left = self.cluster.client.get(RESOURCES[POD_GROUPS].path("default"))["items"]
        super().forget()


SCENARIO = Scenario(
    "ai-pod-gang",
    job({"trainer": role(2, annotations=FAILS_FIRST, restartPolicy="ExitCode", restartScope="All")}),
    over=lambda world: world.phase() == "Succeed",
)


@cache
def undisturbed() -> Whole:
    with quiet():
        return Whole(
            live(SCENARIO, world_type=GangWorld, more_seconds=0), live(SCENARIO, Lag(), seed=2, world_type=GangWorld)
        )


def writes() -> int:
    return undisturbed().steps["write"]


def test_the_group_is_made_first_and_goes_at_the_end() -> None:
    assert undisturbed().first.over
    assert GangWorld.left == []


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in (1, 2))])
def test_a_worker_dies_at_each_write_of_a_gangs_life(part: int) -> None:
    every = [f"{number}-{turn(number + part, writes())}" for number in range(writes())]
    assert set(every) <= set(points(undisturbed()))
    for point in every:
        with quiet():
            run = live(SCENARIO, crash(point), world_type=GangWorld, more_seconds=LOST_HOLDER_SECONDS + 60)
        assert judge(run, undisturbed(), Allowance(LOST_HOLDER_SECONDS)) == [], point
        assert GangWorld.left == [], point
