"""Scaling: what it restarts (nothing), what it remembers, and in which phases it counts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import World, ago, condition, running
from tjworker.api.status import JobStatus


def scaled(world: World, replicas: int, **role: Any) -> World:
    world.job = make_job().role("trainer", replicas, **role).status(world.job.status).build()
    return world


def test_scaling_down_and_up_again_before_the_pods_are_gone_is_no_restart() -> None:
    world = running()
    pod = world.pods["digits-trainer-1"]
    scaled(world, 1).step()
    world.pods["digits-trainer-1"] = pod.deleting(ago(-30))
    scaled(world, 2).step()
    assert (world.job.status.phase, world.job.status.restarts) == ("Scaling", 0)
    world.pods.pop("digits-trainer-1")
    world.settle().all("running").settle()
    assert (world.job.status.phase, world.job.status.restarts, len(world.pods)) == ("Running", 0, 2)


def test_an_index_that_has_succeeded_is_not_run_again_after_scaling_down_and_up() -> None:
    world = World(make_job().role("trainer", 3).build()).settle().all("running").settle()
    world.set("digits-trainer-2", "succeeded").settle()
    scaled(world, 2).settle()
    made = list(world.created)
    scaled(world, 3).settle()
    assert world.created == made
    assert world.job.status.replica_statuses["trainer"].succeeded == 1


@pytest.mark.parametrize("policy", ["All", "Any"])
def test_scaling_the_trainers_to_none_is_no_success(policy: str) -> None:
    def job(trainers: int) -> JobBuilder:
        return make_job().role("ps", 1, complete="None").role("trainer", trainers).spec(completePolicy=policy)

    world = World(job(2).build()).settle().all("running").settle()
    world.job = job(0).status(world.job.status).build()
    world.settle()
    assert world.job.status.phase == "Running"
    world.job = job(2).status(world.job.status).build()
    world.settle().all("running").settle()
    assert (world.job.status.phase, len(world.pods)) == ("Running", 3)


def test_a_role_that_is_elastic_no_more_leaves_nothing_to_the_scale_subresource() -> None:
    """An HPA would go on to count pods by a selector of then."""
    world = World(make_job().role("worker", 2, least=1, most=4).build()).settle().all("running").settle()
    assert (world.job.status.replicas, "replica-name=worker" in world.job.status.selector) == (2, True)
    world.job = make_job().role("worker", 2).status(world.job.status).build()
    world.settle()
    assert (world.job.status.replicas, world.job.status.selector) == (0, "")


TOLD = "the job is accepted"
NOT_COUNTED = "spec.replicaSpecs.trainer.replicas (2) does not count, as spec.replicas is set; scale the job"
ASKED: dict[str, tuple[int | None, JobStatus, str]] = {
    # spec.replicas beside a trainer's own 2
    "none": (None, JobStatus(), TOLD),
    "the same": (2, JobStatus(), TOLD),
    "another": (3, JobStatus(), f"{TOLD}; {NOT_COUNTED}, or remove that"),
    "the same, and the autoscaler wants another": (
        2,
        JobStatus(targets={"trainer": 4}, targets_beside={"trainer": 2}),
        TOLD,
    ),
}


@pytest.mark.parametrize(("asked", "status", "want"), ASKED.values(), ids=ASKED.keys())
def test_which_number_counts_is_told(asked: int | None, status: JobStatus, want: str) -> None:
    spec = {} if asked is None else {"replicas": asked}
    job = make_job().role("trainer", 2, least=1, most=4, edl="Auto").spec(**spec)
    world = World(job.status(status).build().with_targets()).settle()
    assert condition(world.job.status, "Created") == ("True", "Accepted", want)
