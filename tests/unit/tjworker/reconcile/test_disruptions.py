"""A disruption comes to the same whenever it is seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.builders import PodBuilder, make_job, make_pod
from tests.unit.tjworker.reconcile.passes import ago, decide, everything, running, status_of

LOOKS: dict[str, Callable[[PodBuilder], PodBuilder]] = {
    "while it runs out its grace": lambda p: p.running().deleting(ago(-30)).but(disruption="PreemptionByScheduler"),
    "after it has failed": lambda p: p.disrupted("PreemptionByScheduler"),
    "after it has failed, still there": lambda p: (
        p.disrupted("PreemptionByScheduler").deleting(ago(-20), ago(10)).containers(finished_at=ago(5))
    ),
    "after it has saved its state and exited with 0": lambda p: (
        p.succeeded().deleting(ago(-20), ago(10)).but(disruption="PreemptionByScheduler").containers(finished_at=ago(5))
    ),
}


@pytest.mark.parametrize("policy", ["Never", "OnFailure", "OnNodeFail"])
@pytest.mark.parametrize("look", LOOKS)
def test_a_preempted_pod_comes_to_the_same_whenever_it_is_seen(look: str, policy: str) -> None:
    job = (
        make_job().role("trainer", 2, restart=policy, scope="Pod").status(phase="Running", start_time=ago(900)).build()
    )
    pod = LOOKS[look](make_pod(job, "trainer", 1).on("node-a"))
    status = status_of(decide(job, everything(job, make_pod(job, "trainer", 0).running(), pod)))
    if policy == "Never":
        assert status.ending is not None
    else:
        assert status.restart_counts["trainer"].preemption == 1


def test_a_trainer_that_exits_with_0_because_it_is_told_to_go_has_not_succeeded() -> None:
    world = running(restart="Never")
    pod = world.pods["digits-trainer-1"].succeeded().deleting(ago(-20), ago(10))
    world.pods["digits-trainer-1"] = pod.containers(finished_at=ago(5))
    world.step()
    assert world.job.status.attempts.roles["trainer"].completed == ""
    assert world.job.status.restart_counts["trainer"].user == 1
