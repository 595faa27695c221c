"""From one phase to the next, with what the status says on the way."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.support.builders import PodBuilder, make_job, make_pod
from tests.unit.tjworker.reconcile.passes import World, created, decide, everything, status_of
from tjworker.api.model import TrainingJob


@dataclass
class Step:
    was: str
    pods: list[str]
    want: str


# M missing, W waiting for a node, N has a node, R runs, S succeeded. Two trainers.
STEPS = {
    "seen for the first time": Step("", ["M", "M"], "Pending"),
    "one has no node": Step("Pending", ["W", "N"], "Pending"),
    "all have a node, one is not up": Step("Pending", ["N", "R"], "Creating"),
    "all run": Step("Creating", ["R", "R"], "Running"),
    "all run at the first look": Step("", ["R", "R"], "Running"),
    "one has already succeeded": Step("Creating", ["S", "R"], "Running"),
    "a pod of a running job has vanished": Step("Running", ["M", "R"], "Restarting"),
    "the replacement of a restarting job waits for a node": Step("Restarting", ["W", "R"], "Restarting"),
    "the replacement runs": Step("Restarting", ["R", "R"], "Running"),
    "a scaled job waits for its new pod": Step("Scaling", ["R", "W"], "Scaling"),
    "the new pod runs": Step("Scaling", ["R", "R"], "Running"),
    "a pod too many has come late beside those that run": Step("Running", ["R", "R", "R"], "Scaling"),
    "a pod too many and one too few": Step("Running", ["R", "M", "R"], "Restarting"),
}


def pod(job: TrainingJob, index: int, letter: str) -> PodBuilder:
    new = make_pod(job, "trainer", index)
    return {"W": new, "N": new.creating(), "R": new.running(), "S": new.succeeded()}[letter]


@pytest.mark.parametrize("case", STEPS.values(), ids=STEPS.keys())
def test_phase(case: Step) -> None:
    started = "2026-01-01T00:00:00Z" if case.was else None
    job = make_job().role("trainer", 2).status(phase=case.was, start_time=started).build()
    pods = [pod(job, i, letter) for i, letter in enumerate(case.pods) if letter != "M"]
    plan = decide(job, everything(job, *pods))
    assert (plan.status or job.status).phase == case.want


def test_a_whole_life_takes_four_status_writes_and_two_events() -> None:
    world = World(make_job().role("trainer", 4).build()).settle().all("running").settle().all("succeeded").settle()
    assert world.status_writes == 4
    assert world.events == ["Running", "Succeed"]
    assert len(world.created) == 4


def test_scaling_below_what_has_succeeded_completes_the_job() -> None:
    world = World(make_job().role("trainer", 3).build()).settle().all("running").settle()
    world.set("digits-trainer-0", "succeeded").set("digits-trainer-1", "succeeded").settle()
    world.job = make_job().role("trainer", 2).status(world.job.status).build()
    world.settle()
    assert world.job.status.phase == "Succeed"


def test_a_pod_that_is_still_going_at_resume_is_not_taken_for_deleted_by_a_user() -> None:
    base = make_job().role("trainer", 1)
    job = base.build()
    suspended = (
        base.suspended().status(status_of(decide(job, everything(job, make_pod(job, "trainer", 0).running())))).build()
    )
    first = decide(suspended, everything(suspended, make_pod(suspended, "trainer", 0).running()))
    resumed = base.status(status_of(first)).build()
    plan = decide(resumed, everything(resumed, make_pod(resumed, "trainer", 0).running().deleting()))
    assert status_of(plan).restarts == 0
    assert created(plan) == []


def test_a_deleted_and_recreated_job_waits_for_the_old_ones_pods_and_touches_none() -> None:
    old = make_job().role("trainer", 2).build()
    job = make_job().metadata(uid="the-new-one").role("trainer", 2).build()
    leftovers = everything(
        old, make_pod(old, "trainer", 0).running().deleting(), make_pod(old, "trainer", 1).succeeded()
    )
    plan = decide(job, leftovers)
    assert plan.writes == ()
    assert status_of(plan).phase == "Pending"
    assert status_of(plan).replica_statuses["trainer"].succeeded == 0
    assert len(created(decide(job))) == 2
