"""What holds for every policy of the registry, and what becomes of a plan that breaks a rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.autoscaling import carry_out, pose_jobs, problems
from tests.support.tiers import examples
from tjworker.api.model import BatchSize
from tjworker.api.progress import Progress, SpeedSample
from tjworker.autoscale import POLICIES, ClusterResource, ElasticJob, Nodes, PlanRejected
from tjworker.autoscale.fitting import check_plan, keep_what_fits
from tjworker.autoscale.problem import Problem, RoleId, ScalePlan
from tjworker.base import JobKey

EVERY = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())


@EVERY
@examples(60)
@given(problem=problems())
def test_a_plan_keeps_every_rule_gives_reasons_and_changes_no_argument(policy: Any, problem: Problem) -> None:
    """Bounds, sums, and a node for each replica that is added: `check_plan`, whose own cases are below."""
    before = replace(problem, resource=problem.resource.copy(), roles=list(problem.roles))
    plan = policy.plan(problem)
    check_plan(problem, plan)
    for role in problem.roles:
        to = plan.targets.get(role.id, role.elastic.parallelism)
        assert to <= max(role.elastic.max_instance, 0)
        reason = policy.explain(problem, plan, role)
        assert reason.text, "also one that receives nothing has a reason"
        assert bool(reason.cause) is (to != role.elastic.parallelism)
    assert problem == before
    no_node_holds_more_than_it_has(problem, plan)


def no_node_holds_more_than_it_has(problem: Problem, plan: ScalePlan) -> None:
    after, before = carry_out(problem, plan).resource.nodes, problem.resource.nodes
    for free, was in (
        (after.cpu_idle_milli, before.cpu_idle_milli),
        (after.memory_free_mega, before.memory_free_mega),
        (after.gpu_free, before.gpu_free),
        *((after.others_free[kind], before.others_free[kind]) for kind in before.others_free),
    ):
        assert all(left >= 0 or left >= was[node] for node, left in free.items())


@EVERY
@examples(60)
@given(problem=problems(), draw=st.randoms(use_true_random=False))
def test_the_order_of_the_jobs_does_not_matter(policy: Any, problem: Problem, draw: Any) -> None:
    shuffled = list(problem.roles)
    draw.shuffle(shuffled)
    assert policy.plan(replace(problem, roles=shuffled)) == policy.plan(problem)


@EVERY
@examples(40)
@given(problem=problems())
def test_planning_again_after_the_plan_is_carried_out_moves_nothing(policy: Any, problem: Problem) -> None:
    """Where more was requested than there is, roles had to give first what two plans later may be shared better; such a
    cluster comes to rest within three plans."""
    crowded = problem.resource.cpu_request_milli > problem.resource.cpu_total_milli * problem.max_load_desired
    crowded |= problem.resource.memory_request_mega > problem.resource.memory_total_mega
    crowded |= problem.resource.gpu_limit > problem.resource.gpu_total
    for _ in range(3 if crowded else 1):
        problem = carry_out(problem, policy.plan(problem))
    again = policy.plan(problem)
    moved = {str(r.id): again.targets[r.id] - r.elastic.parallelism for r in problem.roles if r.id in again.targets}
    assert not any(moved.values()), moved


NUMBERS = st.sampled_from([0.0, 5e-324, 1e-300, 1e-9, 7.5, 1e12, 1e30, 1.7e308])
COUNTS = st.sampled_from([0, 1, 2, 100, 10_000, 2**31 - 1, 2**62])
SAMPLES = st.builds(
    SpeedSample,
    *(COUNTS, COUNTS, NUMBERS, COUNTS, NUMBERS),
    *(st.none() | COUNTS, st.none() | NUMBERS, st.none() | NUMBERS),
)
REPORTED = st.builds(
    Progress,
    *(st.none() | NUMBERS, st.none() | NUMBERS | st.just(-1.0), st.none()),
    *(st.lists(SAMPLES, max_size=3).map(tuple), st.none() | NUMBERS, st.none()),
)
BATCHES = st.none() | st.just(BatchSize(1, 2**31 - 1, 1, 2**31 - 1))


@EVERY
@examples(60)
@given(problem=problems(), said=st.lists(st.tuples(REPORTED, BATCHES), min_size=6, max_size=6))
def test_whatever_the_programs_report_there_is_a_plan_and_a_reason(policy: Any, problem: Problem, said: Any) -> None:
    """They are written by tenants, and one plan is made for all."""
    told = [replace(r, progress=p, batch_size=b) for r, (p, b) in zip(problem.roles, said, strict=False)]
    problem = replace(problem, roles=told)
    plan = policy.plan(problem)
    check_plan(problem, plan)
    for role in problem.roles:
        assert policy.explain(problem, plan, role).text


# -- plans that break a rule -------------------------------------------------------------------------
def role_id(name: str) -> RoleId:
    return RoleId(JobKey(name), "trainer")


def two_nodes(*jobs: ElasticJob) -> Problem:
    """Of four CPUs each, empty but for the jobs' replicas."""
    idle, asked = {"a": 4000, "b": 4000}, sum(job.cpu_request_milli * job.parallelism for job in jobs)
    for job in jobs:
        for node in job.placed:
            idle[node] -= job.cpu_request_milli
    memory = dict.fromkeys(idle, 64_000)
    resource = ClusterResource(
        2, cpu_total_milli=8000, cpu_request_milli=asked, memory_total_mega=128_000, nodes=Nodes(idle, memory)
    )
    return pose_jobs(jobs, resource)


A = ElasticJob("a", 1, 6, 3, 1000, placed=("a", "a", "a"))
B = ElasticJob("b", 1, 6, 1, 1000, placed=("b",))
WIDE = ElasticJob("b", 0, 6, 0, 3000)


@dataclass(frozen=True)
class Case:
    targets: Mapping[str, Any]
    want: str
    places: Mapping[str, tuple[str, ...]] | None = None
    jobs: tuple[ElasticJob, ...] = (A, B)


BROKEN = {
    "below the minimum": Case({"a": 0}, "a/trainer: 3 -> 0 is outside 1..6"),
    "above the maximum": Case({"a": 7}, "3 -> 7 is outside 1..6"),
    "below the floor of a role that has just grown": Case(
        {"a": 1}, "3 -> 1 is outside 3..6", jobs=(replace(A, floor=3), B)
    ),
    "above the ceiling of a role that rests": Case({"a": 4}, "3 -> 4 is outside 1..3", jobs=(replace(A, ceiling=3), B)),
    "a role that there is not": Case({"c": 1}, "c/trainer: no such role"),
    "more CPUs than there are": Case(
        {"a": 6, "b": 4}, "10000 milli-CPUs would be requested of 8000", {"a": ("a", "b", "b"), "b": ("b",) * 3}
    ),
    "a replica without a place": Case({"b": 2}, "1 more replicas, and 0 places for them"),
    "a node that there is not": Case({"b": 2}, "no room on node x for 1 more replicas of its size", {"b": ("x",)}),
    "a node that is full": Case({"b": 3}, "no room on node a", {"b": ("a", "a")}),
    "room on no single node, though there is enough of it": Case(
        {"b": 1}, "no room on node b", {"b": ("b",)}, (A, WIDE, replace(B, name="c", parallelism=2, placed=("b", "b")))
    ),
    "room of a job that keeps it, promised to another": Case(
        {"b": 5}, "no room on node a", {"b": ("b", "b", "a", "a")}
    ),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_a_plan_that_breaks_a_rule_is_rejected(case: Case) -> None:
    plan = ScalePlan(
        {role_id(name): to for name, to in case.targets.items()},
        {role_id(name): nodes for name, nodes in (case.places or {}).items()},
    )
    with pytest.raises(PlanRejected, match=case.want.replace(".", r"\.")):
        check_plan(two_nodes(*case.jobs), plan)


GOOD = {
    "what a job gives up goes to another": Case({"a": 1, "b": 6}, "", {"b": ("b", "b", "b", "a", "a")}),
    "a job above its maximum comes down, as far as the policy likes": Case(
        {"a": 2}, "", jobs=(replace(A, max_instance=1), B)
    ),
}


@pytest.mark.parametrize("case", GOOD.values(), ids=GOOD.keys())
def test_a_plan_that_keeps_the_rules_is_not(case: Case) -> None:
    places = {role_id(name): nodes for name, nodes in (case.places or {}).items()}
    check_plan(two_nodes(*case.jobs), ScalePlan({role_id(name): to for name, to in case.targets.items()}, places))


@examples(40)
@given(problem=problems(), draw=st.randoms(use_true_random=False))
def test_of_any_wish_what_fits_is_a_plan(problem: Problem, draw: Any) -> None:
    """Wherever the sums allow it."""
    wish = ScalePlan(
        {r.id: draw.randint(r.elastic.lowest, max(r.elastic.lowest, r.elastic.highest)) for r in problem.roles}
    )
    kept = keep_what_fits(problem, wish)
    assert all(kept.targets[id_] <= to for id_, to in wish.targets.items())
    grown = {r.id: kept.targets[r.id] - r.elastic.parallelism for r in problem.roles}
    resource = replace(problem.resource, cpu_total_milli=1 << 60, memory_total_mega=1 << 60, gpu_total=1 << 60)
    assume(any(step > 0 for step in grown.values()))
    check_plan(replace(problem, resource=resource), kept)
