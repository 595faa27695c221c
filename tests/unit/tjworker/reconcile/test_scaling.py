"""Scaling: what it restarts (nothing), what it remembers, and in which phases it counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import World, ago, running


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


def test_nor_when_another_has_succeeded_in_between() -> None:
    world = World(make_job().role("trainer", 3).build()).settle().all("running").settle()
    world.set("digits-trainer-2", "succeeded").settle()
    scaled(world, 2).settle().set("digits-trainer-0", "succeeded").settle()
    made = list(world.created)
    scaled(world, 3).settle()
    assert (world.created, world.job.status.attempts.roles["trainer"].completed) == (made, "0,2")


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


@dataclass
class While:
    """Scaled from 2 to 3, while."""

    builder: Callable[[int], JobBuilder]
    prepare: Callable[[World], object]
    want_phase: str
    want_pods: int


def plain(replicas: int) -> JobBuilder:
    return make_job().role("trainer", replicas, restart="OnFailure", scope="All")


WHILE = {
    "it is Pending": While(plain, lambda w: w, "Running", 3),
    "it is Running": While(plain, lambda w: w.all("running").settle(), "Running", 3),
    "it is Restarting": While(
        plain, lambda w: w.all("running").settle().set("digits-trainer-0", "failed").step(), "Running", 3
    ),
    "it is Suspended": While(lambda n: plain(n).suspended(), lambda w: w, "Suspended", 0),
    "it is Terminating": While(plain, lambda w: w.all("running").settle().all("succeeded").step(), "Succeed", 0),
    "it has ended": While(plain, lambda w: w.all("running").settle().all("succeeded").settle(), "Succeed", 0),
}


def test_a_job_that_is_scaled_while_it_restarts_says_that_it_restarts() -> None:
    """That is the news: a pod has failed. That the new attempt has another number of pods stands in its records."""
    world = World(plain(2).build()).settle().all("running").settle().set("digits-trainer-0", "failed")
    world.step()
    assert world.job.status.phase == "Restarting"
    world.job = plain(3).status(world.job.status).build()
    for _ in range(4):
        world.step()
        assert world.job.status.phase == "Restarting"
    world.all("running").settle()
    assert (world.job.status.phase, len(world.pods)) == ("Running", 3)


@pytest.mark.parametrize("case", WHILE.values(), ids=WHILE.keys())
def test_scaling_in_every_phase(case: While) -> None:
    world = World(case.builder(2).build()).settle()
    case.prepare(world)
    world.job = case.builder(3).status(world.job.status).build()
    world.settle().all("running").settle()
    status = world.job.status
    assert (status.phase, len(world.pods)) == (case.want_phase, case.want_pods)
    if case.want_phase in ("Running", "Suspended"):
        assert [(r.from_, r.to) for r in status.scale_records] == [(2, 3)]
        assert status.replica_statuses["trainer"].desired == 3
