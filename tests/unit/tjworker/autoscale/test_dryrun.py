"""PaddlePaddle EDL's planner, as tables: one step (`scale_dry_run`), the order of jobs, a node for one more, and whole
plans, which the fast form must give as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.support.autoscaling import scale_one_by_one
from tjworker.autoscale import ClusterResource, ElasticJob, Nodes, scale_all_jobs_dry_run, scale_dry_run


def a_job(name: str = "job", least: int = 1, most: int = 3, now: int = 1, **more: Any) -> ElasticJob:
    """One CPU, 100 MB a replica."""
    return replace(ElasticJob(name, least, most, now, 1000, 100), **more)


def a_cluster(total: int = 4000, asked: int = 1000, **more: Any) -> ClusterResource:
    """One node, idle as far as its own books say, so that the sums decide."""
    resource = ClusterResource(
        1,
        cpu_total_milli=total,
        cpu_request_milli=asked,
        memory_total_mega=10_000,
        memory_request_mega=100,
        nodes=Nodes({"n": 99_000}, {"n": 99_000}),
    )
    return replace(resource, **more)


@dataclass(frozen=True)
class Step:
    job: ElasticJob
    resource: ClusterResource
    want: int
    down: bool = False
    diff: int = 0
    load: float = 1.0


STEPS = {
    "up: there is room": Step(a_job(), a_cluster(), 1),
    "up: at its maximum": Step(a_job(now=3), a_cluster(), 0),
    "up: at its ceiling": Step(a_job(now=2, ceiling=2), a_cluster(), 0),
    "up: above its maximum, straight down to it": Step(a_job(now=7), a_cluster(), -4),
    "up: the last CPU": Step(a_job(), a_cluster(2000, 1000), 1),
    "up: CPUs only as far as the load is desired": Step(a_job(), a_cluster(2000, 1000), 0, load=0.97),
    "up: the last memory": Step(a_job(), a_cluster(memory_request_mega=9_900), 1),
    "up: the cluster has room, no node has": Step(
        a_job(), a_cluster(nodes=Nodes({"n": 900, "m": 900}, {"n": 999, "m": 999})), 0
    ),
    "up: the last GPU, whatever load is desired for CPUs": Step(
        a_job(gpu_limit=1), a_cluster(gpu_total=10, gpu_limit=9), 1, load=0.8
    ),
    "up: each node has the pods that it can take": Step(
        a_job(others=(("pods", 1),)),
        a_cluster(nodes=Nodes({"n": 9000}, {"n": 9000}, others_free={"pods": {"n": 0}})),
        0,
    ),
    "up: without requests, where CPUs are asked for beyond what there is": Step(
        a_job(cpu_request_milli=0, memory_request_mega=0), a_cluster(1000, 2000), 0
    ),
    "down: there is room for all": Step(a_job(now=3), a_cluster(4000, 4000), 0, down=True),
    "down: more CPUs are asked for than is desired": Step(
        a_job(now=3), a_cluster(4000, 4000), -1, down=True, load=0.97
    ),
    "down: more memory is asked for than there is": Step(
        a_job(now=3), a_cluster(memory_request_mega=10_001), -1, down=True
    ),
    "down: at its minimum": Step(a_job(now=1), a_cluster(3000, 4000), 0, down=True),
    "down: above its maximum": Step(a_job(now=5), a_cluster(), -1, down=True),
    "down: GPUs are wanted, and it has some": Step(
        a_job(now=3, gpu_limit=1), a_cluster(gpu_total=4, gpu_limit=5), -1, down=True
    ),
    "down: all GPUs are in use, none is wanted": Step(
        a_job(now=3, gpu_limit=1), a_cluster(gpu_total=4, gpu_limit=4), 0, down=True, load=0.5
    ),
}


@pytest.mark.parametrize("sentence", STEPS)
def test_one_step(sentence: str) -> None:
    case = STEPS[sentence]
    resource = case.resource.copy()
    assert scale_dry_run(resource, case.job, case.diff, case.load, case.down) == case.want
    taken = replace(resource, nodes=case.resource.nodes)
    want = replace(
        case.resource,
        cpu_request_milli=case.resource.cpu_request_milli + case.want * case.job.cpu_request_milli,
        memory_request_mega=case.resource.memory_request_mega + case.want * case.job.memory_request_mega,
        gpu_limit=case.resource.gpu_limit + case.want * case.job.gpu_limit,
        gpu_request=case.resource.gpu_request + case.want * case.job.gpu_limit,
    )
    assert taken == want, "the sums are as they would be after the step"
    one_node_less = {
        name: idle - max(0, case.want) * case.job.cpu_request_milli
        for name, idle in case.resource.nodes.cpu_idle_milli.items()
    }
    assert resource.nodes.cpu_idle_milli == one_node_less


def test_who_goes_gives_its_node_back_what_it_had() -> None:
    resource = a_cluster(
        3000,
        4000,
        gpu_total=2,
        gpu_limit=2,
        nodes=Nodes({"n": 0, "m": 0}, {"n": 0, "m": 0}, {"n": 0, "m": 0}, {"pods": {"n": 0, "m": 0}}),
    )
    job = a_job(now=3, gpu_limit=1, placed=("n", "gone", "m"), others=(("pods", 1),))
    assert scale_dry_run(resource, job, 0, 1.0, True) == -1
    assert resource.nodes == Nodes(
        {"n": 0, "m": 1000}, {"n": 0, "m": 100}, {"n": 0, "m": 1}, {"pods": {"n": 0, "m": 1}}
    ), "the last goes first"
    resource.cpu_request_milli = 9999
    assert scale_dry_run(resource, job, -1, 1.0, True) == -1
    assert resource.nodes.cpu_idle_milli == {"n": 0, "m": 1000}, "a node that the plan does not have gets nothing"


@dataclass(frozen=True)
class Plan:
    jobs: tuple[ElasticJob, ...]
    resource: ClusterResource
    want: dict[str, int]
    load: float = 1.0


EIGHT = Nodes({"a": 4000, "b": 4000}, {"a": 4000, "b": 4000})
PLANS = {
    "one job fills the cluster": Plan((a_job(),), a_cluster(), {"job": 2}),
    "one job gives back what is beyond that": Plan((a_job(now=3),), a_cluster(3000, 3000), {"job": -1}, load=0.8),
    "a maximum below the minimum: not in the plan": Plan((a_job(least=3, most=2),), a_cluster(), {}),
    "a cluster without nodes: no job grows": Plan((a_job(),), ClusterResource(), {"job": 0}),
    "a cluster that has lost its nodes: everybody shrinks, to the minimum": Plan(
        (a_job(now=3), a_job("b", now=2)), a_cluster(0, 5000, nodes=Nodes()), {"job": -2, "b": -1}
    ),
    "two of 3 CPUs fit on two nodes of 4, though the sum has room for a third": Plan(
        (a_job(most=9, now=0, least=0, cpu_request_milli=2500),), a_cluster(8000, 0, nodes=EIGHT), {"job": 2}
    ),
    "two jobs share what is free, one replica a round": Plan(
        (a_job("a", most=9), a_job("b", most=9)), a_cluster(8000, 2000), {"a": 3, "b": 3}
    ),
    "the more fulfilled one gives way": Plan(
        (a_job("a", most=9, now=2), a_job("b", most=9, now=8)), a_cluster(9000, 10_000), {"a": 0, "b": -1}
    ),
    "what one gives up, a smaller one may use": Plan(
        (a_job("a", most=9, now=2, cpu_request_milli=4000), a_job("b", most=9)),
        a_cluster(9000, 10_000),
        {"a": -1, "b": 3},
    ),
    "a million replicas, as many as there is room for": Plan(
        (a_job(most=1_000_000),), a_cluster(8000, 0, nodes=EIGHT), {"job": 8}
    ),
    "a million replicas without requests, as many pods as nodes take": Plan(
        (a_job(most=1_000_000, cpu_request_milli=0, memory_request_mega=0, others=(("pods", 1),)),),
        a_cluster(nodes=Nodes({"a": 0, "b": 0}, {"a": 0, "b": 0}, others_free={"pods": {"a": 109, "b": 110}})),
        {"job": 219},
    ),
    "for want of GPUs only those that have some shrink": Plan(
        (a_job("cpu", most=9, now=3), a_job("gpu", most=9, now=4, gpu_limit=1)),
        a_cluster(9000, 9000, gpu_total=2, gpu_limit=4),
        {"cpu": 2, "gpu": -2},
    ),
}


@pytest.mark.parametrize("sentence", PLANS)
def test_a_plan(sentence: str) -> None:
    case = PLANS[sentence]
    before = case.resource.copy()
    assert scale_all_jobs_dry_run(case.jobs, case.resource, case.load) == case.want
    assert case.resource == before, "its arguments are as they were"
    if max((abs(step) for step in case.want.values()), default=0) < 1000:
        assert scale_one_by_one(case.jobs, case.resource, case.load) == case.want, "the naive loop says the same"
        assert case.resource == before
