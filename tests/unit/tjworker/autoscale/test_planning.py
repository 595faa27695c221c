"""How much work a plan takes in a large cluster: counted, so that it comes out the same on every machine.
`python -m benchmarks.planning` has the times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.planning import cpu_cluster, gpu_cluster
from tests.support.autoscaling import pose_jobs
from tjworker.autoscale import POLICIES, ClusterResource, ElasticJob, Nodes
from tjworker.autoscale.donors import Donors
from tjworker.autoscale.fitting import check_plan
from tjworker.autoscale.problem import Demand, Problem
from tjworker.autoscale.trial import Trial

SHARING = pytest.mark.parametrize("policy", ["fair", "throughput", "goodput"])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The replicas that trials add and take away, those that are undone as well, and the nodes that are priced."""
    made: list[int] = []

    def count(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def counted(*of: Any, **more: Any) -> Any:
            made.append(1)
            return method(*of, **more)

        monkeypatch.setattr(owner, name, counted)

    count(Trial, "_take")
    count(Donors, "price")
    return made


@SHARING
def test_a_plan_of_2048_gpus_does_not_repeat_searches_that_must_fail(policy: str, steps: list[int]) -> None:
    """Where no role gives room to one job, none does to a job of the same size that gains less."""
    problem = gpu_cluster(1_000, 512)
    plan = POLICIES[policy].plan(problem)
    check_plan(problem, plan)
    moved = sum(abs(plan.targets[role.id] - role.elastic.parallelism) for role in problem.roles)
    assert moved > 500
    assert len(steps) < 12 * moved, f"{len(steps)} steps for {moved} replicas"


@pytest.mark.parametrize("policy", ["fair", "throughput"])
def test_many_jobs_that_fill_a_cluster_are_placed_without_searches_for_those_that_find_no_more(
    policy: str, steps: list[int]
) -> None:
    """CPUs run out first for large replicas, then for small ones, while others still find room."""
    problem = cpu_cluster(200, 100)
    plan = POLICIES[policy].plan(problem)
    moved = sum(abs(plan.targets[role.id] - role.elastic.parallelism) for role in problem.roles)
    assert moved > 2000
    assert len(steps) < 1.7 * moved, f"{len(steps)} steps for {moved} replicas"


def three_nodes() -> Problem:
    """Two nodes are full of 5-CPU trainers, and the third has 3 CPUs beside its two trainers."""
    trainers = [ElasticJob(f"{node}{i}", 0, 1, 1, 5000, placed=(node,)) for node in "ab" for i in range(3)]
    trainers += [ElasticJob(f"c{i}", 0, 1, 1, 5000, placed=("c",)) for i in range(2)]
    idle = {"a": 2000, "b": 2000, "c": 3000}
    total = sum(idle.values()) + 5000 * len(trainers)
    nodes = Nodes(idle, dict.fromkeys(idle, 64_000))
    return pose_jobs(
        trainers,
        ClusterResource(
            3, cpu_total_milli=total, cpu_request_milli=5000 * len(trainers), memory_total_mega=192_000, nodes=nodes
        ),
    )


@SHARING
@pytest.mark.parametrize(("waiting", "gone"), [(1, 1), (2, 1), (3, 2)])
def test_pods_that_wait_take_as_few_replicas_as_hold_them(policy: str, waiting: int, gone: int) -> None:
    """A 4-CPU pod in the room of a 5-CPU trainer leaves 1 CPU over; on node c, two such pods fit in the room of one
    trainer."""
    problem = three_nodes()
    problem = replace(problem, demand=[Demand("default/pserver", waiting, cpu_milli=4000)])
    problem.resource.cpu_request_milli += 4000 * waiting
    plan = POLICIES[policy].plan(problem)
    assert sum(1 - plan.targets[role.id] for role in problem.roles) == gone
    if waiting == 2:
        assert sum(plan.targets[role.id] for role in problem.roles if role.elastic.placed == ("c",)) == 1
