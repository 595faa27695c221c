"""Jobs of one cluster that have chosen different policies: which policy plans a job, and how policies share room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.autoscaling import carry_out, pose_jobs, problems
from tests.support.builders import make_job, make_node
from tests.support.tiers import examples
from tests.unit.tjworker.autoscale.test_decide import NOW, an_elastic, running, used
from tjworker.api.labels import AUTOSCALE_POLICY
from tjworker.autoscale import (
    POLICIES,
    AutoscaleRules,
    ClusterResource,
    ElasticJob,
    JobState,
    Nodes,
    PlanRejected,
    decide,
)
from tjworker.autoscale.choice import choose_policy
from tjworker.autoscale.fitting import check_plan
from tjworker.autoscale.problem import Problem, ScalePlan
from tjworker.autoscale.together import plan_together

EXISTS = ", ".join(POLICIES)
OF_JOB = f"annotation {AUTOSCALE_POLICY} of the job"
OF_NAMESPACE = f"label {AUTOSCALE_POLICY} of namespace default"


@dataclass(frozen=True)
class Named:
    want: str
    job: str = ""
    namespace: str = ""
    setting: str = "fulfillment"
    wrong: str = ""


CHOICES: dict[str, Named] = {
    "nothing is named: the setting's": Named("fair", setting="fair"),
    "the namespace goes before the setting": Named("goodput", namespace="goodput"),
    "the job goes before its namespace": Named("fair", job="fair", namespace="goodput"),
    "a wrong name of the job: that of its namespace": Named(
        "goodput",
        job="best",
        namespace="goodput",
        wrong=f"{OF_JOB} names 'best', which is no policy. Choose one of {EXISTS}; goodput plans it now",
    ),
    "a wrong name of the namespace: the setting's": Named(
        "fulfillment",
        namespace="Fair",
        wrong=f"{OF_NAMESPACE} names 'Fair', which is no policy. Choose one of {EXISTS}; fulfillment plans it now",
    ),
    "both are wrong: both are named": Named(
        "fair",
        job="x",
        namespace="y",
        setting="fair",
        wrong=f"{OF_JOB} names 'x', which is no policy; {OF_NAMESPACE} names 'y', which is no policy."
        f" Choose one of {EXISTS}; fair plans it now",
    ),
    "off is no policy of a job": Named(
        "fulfillment",
        job="off",
        wrong=f"{OF_JOB} names 'off', which is no policy. Choose one of {EXISTS}; fulfillment plans it now",
    ),
}


@pytest.mark.parametrize("case", CHOICES.values(), ids=CHOICES.keys())
def test_the_most_particular_name_that_exists_is_the_policy(case: Named) -> None:
    job = make_job("digits").workers(2, least=1, most=5)
    named = job.metadata(annotations={AUTOSCALE_POLICY: case.job}) if case.job else job
    choice = choose_policy(JobState(named.build(), namespace_policy=case.namespace), POLICIES, case.setting)
    assert (choice.name, choice.wrong) == (case.want, case.wrong)


# -- sharing -----------------------------------------------------------------------------------------
def cluster(cpus: int, *jobs: ElasticJob) -> Problem:
    """One node; the jobs have what they have."""
    used_cpu = sum(job.parallelism * job.cpu_request_milli for job in jobs)
    nodes = Nodes({"a": cpus * 1000 - used_cpu}, {"a": 1 << 20}, {"a": 0})
    return pose_jobs(
        jobs,
        ClusterResource(
            1, cpu_total_milli=cpus * 1000, cpu_request_milli=used_cpu, memory_total_mega=1 << 20, nodes=nodes
        ),
    )


def chosen(problem: Problem, policies: Mapping[str, str]) -> Problem:
    return replace(problem, roles=[replace(role, policy=policies[str(role.id.job)]) for role in problem.roles])


def settled(problem: Problem, runs: int = 6) -> dict[str, int]:
    for _ in range(runs):
        problem = carry_out(problem, plan_together(problem, "fulfillment"))
    return {str(role.id.job): role.elastic.parallelism for role in problem.roles}


def small(name: str, now: int) -> ElasticJob:
    return ElasticJob(name, 1, 16, now, 1000, placed=("a",) * now)


@pytest.mark.parametrize("pair", list(permutations(POLICIES, 2)), ids="-".join)
@pytest.mark.parametrize("start", [(1, 1), (15, 1), (1, 15)])
def test_equal_jobs_of_two_policies_end_up_equal_whoever_had_the_room(
    pair: tuple[str, str], start: tuple[int, int]
) -> None:
    problem = cluster(16, small("first", start[0]), small("second", start[1]))
    found = settled(chosen(problem, dict(zip(("first", "second"), pair, strict=True))))
    assert found == {"first": 8, "second": 8}


def test_each_policy_deals_its_part_out_by_its_own_rule() -> None:
    """`fulfillment` leaves 9 and 1 as they are, which `fair` makes equal."""
    jobs = [small("greedy", 9), small("late", 1), small("x", 9), small("y", 1)]
    policies = {"greedy": "fulfillment", "late": "fulfillment", "x": "fair", "y": "fair"}
    assert settled(chosen(cluster(20, *jobs), policies)) == {"greedy": 9, "late": 1, "x": 5, "y": 5}


@examples(100)
@given(problem=problems(), policies=st.lists(st.sampled_from(sorted(POLICIES)), min_size=6, max_size=6))
def test_a_plan_of_several_policies_keeps_every_rule_and_changes_no_argument(
    problem: Problem, policies: list[str]
) -> None:
    posed = replace(
        problem, roles=[replace(role, policy=name) for role, name in zip(problem.roles, policies, strict=False)]
    )
    before = replace(posed, resource=posed.resource.copy(), roles=list(posed.roles))
    plan = plan_together(posed, "fulfillment")
    assert posed == before
    check_plan(posed, plan)


def test_a_policy_that_plans_for_the_job_of_another_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = chosen(cluster(16, small("mine", 1), small("theirs", 1)), {"mine": "goodput", "theirs": "fair"})
    theirs = next(role.id for role in problem.roles if role.policy == "fair")
    spoilt: Any = replace(POLICIES["goodput"], plan=lambda _: ScalePlan({theirs: 9}))
    monkeypatch.setitem(POLICIES, "goodput", spoilt)
    with pytest.raises(PlanRejected, match="theirs/trainer: no such role"):
        plan_together(problem, "fulfillment")


def test_a_move_names_the_policy_that_decided_and_a_wrong_name_is_told() -> None:
    states = [
        running(an_elastic(2, name="asks").metadata(annotations={AUTOSCALE_POLICY: "fair"})),
        running(an_elastic(2, name="errs").metadata(annotations={AUTOSCALE_POLICY: "best"})),
    ]
    nodes = {"a": make_node("a", cpu="8", memory="64G").build()}
    decision = decide(states, nodes, {"a": used(4)}, NOW, AutoscaleRules())
    reasons = {move.state.job.name.name: move.reason for move in decision.moves}
    assert reasons["asks"].endswith("asked for; policy fair)")
    assert reasons["errs"].endswith("asked for; policy fulfillment)")
    (problem,) = decision.problems
    assert str(problem).startswith("aitrainingjobs.elasticdeeplearning.ai/default/errs: annotation ")
