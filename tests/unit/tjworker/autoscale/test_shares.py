"""Who gets what under the policies `fair`, `throughput` and `goodput`, and what they say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from tests.support.autoscaling import NOW, pose_jobs
from tjworker.api.progress import Progress, SpeedSample
from tjworker.autoscale import POLICIES, ClusterResource, ElasticJob, Nodes
from tjworker.autoscale.fitting import check_plan
from tjworker.autoscale.problem import ElasticRole, Owner, Problem

NODES = ("a", "b", "c", "d")
SPEED = pytest.mark.parametrize("policy", ["throughput", "goodput"])


def cluster(*jobs: ElasticJob, cpus: int = 4) -> Problem:
    """Four nodes of so many CPUs, empty but for the jobs' replicas, of one CPU each unless they say otherwise."""
    idle = dict.fromkeys(NODES, cpus * 1000)
    for job in jobs:
        for node in job.placed:
            idle[node] -= job.cpu_request_milli
    asked = sum(job.cpu_request_milli * job.parallelism for job in jobs)
    memory = dict.fromkeys(NODES, 64_000)
    total = 4 * cpus * 1000
    resource = ClusterResource(
        4, cpu_total_milli=total, cpu_request_milli=asked, memory_total_mega=256_000, nodes=Nodes(idle, memory)
    )
    return pose_jobs(jobs, resource)


def a_job(name: str, now: int, where: str = "", most: int = 16, cpu: int = 1000) -> ElasticJob:
    return ElasticJob(name, 1, most, now, cpu, placed=tuple(where))


def known(role: ElasticRole, speeds: Mapping[int, float], left: float | None = None) -> ElasticRole:
    samples = tuple(SpeedSample(n, 1, rate, 5, NOW) for n, rate in speeds.items())
    return replace(role, progress=Progress(None, left, NOW, samples, 30.0))


def counts(policy: str, problem: Problem) -> dict[str, int]:
    plan = POLICIES[policy].plan(problem)
    check_plan(problem, plan)
    return {role.elastic.name: plan.targets[role.id] for role in problem.roles}


@dataclass(frozen=True)
class Case:
    jobs: Sequence[ElasticJob]
    want: Mapping[str, int]
    weights: Mapping[str, float] = field(default_factory=dict)


FIRST = a_job("a", 15, "aaaabbbbccccddd")
FAIR = {
    "the first job has nearly all, and equal jobs end up equal": Case([FIRST, a_job("b", 1, "d")], {"a": 8, "b": 8}),
    "a job of twice the weight gets twice as much": Case(
        [a_job("a", 14, "aaaabbbbccccdd"), a_job("b", 1, "d"), a_job("c", 1, "d")], {"a": 8, "b": 4, "c": 4}, {"a": 2}
    ),
    "what a small job does not want goes to the others": Case([FIRST, a_job("b", 1, "d", most=3)], {"a": 13, "b": 3}),
    "replicas of two CPUs count twice": Case(
        [a_job("a", 14, "aaaabbbbccccdd"), a_job("b", 1, "d", cpu=2000)], {"a": 8, "b": 4}
    ),
    "a share that differs by one replica is left as it is": Case(
        [a_job("a", 8, "aaaabbbb"), a_job("b", 7, "ccccddd", most=7)], {"a": 9, "b": 7}
    ),
}


@pytest.mark.parametrize("case", FAIR.values(), ids=FAIR.keys())
def test_the_fair_shares(case: Case) -> None:
    problem = cluster(*case.jobs)
    roles = [replace(r, owner=Owner("default", weight=case.weights.get(r.elastic.name, 1.0))) for r in problem.roles]
    assert counts("fair", replace(problem, roles=roles)) == case.want


@SPEED
def test_a_job_that_more_replicas_do_not_speed_up_gives_its_room_to_one_that_they_do(policy: str) -> None:
    problem = cluster(a_job("flat", 8, "aaaabbbb"), a_job("steep", 8, "ccccdddd"))
    flat, steep = problem.roles
    roles = [known(flat, {1: 10, 4: 11, 8: 11.2}, 1000), known(steep, {1: 10, 4: 38, 8: 70}, 1000)]
    found = counts(policy, replace(problem, roles=roles))
    assert found["steep"] >= 12
    assert 1 <= found["flat"] <= 4


def test_goodput_gives_more_to_the_job_that_ends_sooner() -> None:
    problem = cluster(a_job("long", 1, "a"), a_job("short", 1, "b"))
    speeds = {1: 10.0, 4: 30.0, 8: 45.0, 16: 60.0}
    roles = [known(problem.roles[0], speeds, 100_000), known(problem.roles[1], speeds, 2_000)]
    found = counts("goodput", replace(problem, roles=roles))
    assert found["short"] > found["long"] >= 1


@SPEED
def test_a_role_that_gets_no_more_is_told_what_one_more_would_bring_it_and_the_best_of_the_others(policy: str) -> None:
    problem = cluster(a_job("a", 8, "aaaabbbb"), a_job("b", 8, "ccccdddd"))
    roles = [known(problem.roles[0], {1: 10, 8: 66.0}, 500), known(problem.roles[1], {1: 10, 8: 80.0}, 500)]
    problem = replace(problem, roles=roles)
    plan = POLICIES[policy].plan(problem)
    assert counts(policy, problem) == {"a": 8, "b": 8}
    said = POLICIES[policy].explain(problem, plan, roles[0]).text
    assert said.startswith("one more replica would speed it up by 12%; its last one speeds b up by 14%; ")
    assert "one more asks for 1 CPU, and 0 of 16 are left" in said
