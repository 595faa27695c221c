"""Combines the policies that the jobs of a cluster have chosen into one plan. Pure; changes none of its arguments.

The policy `fair` divides the cluster among all roles. The roles of one policy together get a part of the cluster, and
that policy shares it out to them by its own rule. Room that a policy leaves unused goes to the policies after it. So a
policy gets no more for its jobs by planning first, and a namespace gains no room by its choice of policy.

The order is fixed: `PLANNED_FIRST`, then the rest of the registry. It decides only which policies may use the room that
others leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tjworker.autoscale.dryrun import account, take
from tjworker.autoscale.fitting import check_plan
from tjworker.autoscale.policies import POLICIES
from tjworker.autoscale.problem import ElasticRole, Problem, RoleId, ScalePlan
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.trial import NO_ROOM, Trial, placed_nodes

DIVIDES = "fair"
"""The policy that decides how much room the roles of each policy get together."""
PLANNED_FIRST = ("goodput", "throughput", "fair")
"""The policies that may leave room unused, because one more replica is worth less than a move."""


def plan_together(problem: Problem, default: str) -> ScalePlan:
    """The plan for all roles, within their bounds. `default`: the policy of roles that name none. Raises PlanRejected
    if the plan of a policy breaks a rule, and what a policy raises."""
    groups = by_policy(problem.roles, default)
    # The usual case: all jobs follow the setting, and there is nothing to divide.
    if len(groups) < 2:
        return POLICIES[next(iter(groups), default)].plan(problem)
    division = POLICIES[DIVIDES].plan(problem)
    targets, places = dict(division.targets), dict(division.places)
    for name, own in groups.items():
        # To this policy all other roles are fixed: at the plans so far, or else at the division.
        others = [role for role in problem.roles if policy_of(role, default) != name]
        resource = carried_out(problem.resource, others, ScalePlan(targets, places))
        part = replace(problem, roles=own, resource=resource)
        made = POLICIES[name].plan(part)
        # Not only at the end: the next policy plans with the room that this plan leaves.
        check_plan(part, made)
        for role in own:
            targets[role.id] = made.targets.get(role.id, role.elastic.parallelism)
            places[role.id] = tuple(made.places.get(role.id, ()))
    return _placed(problem, targets)


def policy_of(role: ElasticRole, default: str) -> str:
    return role.policy or default


def by_policy(roles: Iterable[ElasticRole], default: str) -> dict[str, list[ElasticRole]]:
    """Policy -> its roles, in the order in which the policies plan. Policies without roles are left out."""
    order = [*PLANNED_FIRST, *(name for name in POLICIES if name not in PLANNED_FIRST)]
    found: dict[str, list[ElasticRole]] = {name: [] for name in order}
    for role in roles:
        found[policy_of(role, default)].append(role)
    return {name: own for name, own in found.items() if own}


def carried_out(resource: ClusterResource, roles: Sequence[ElasticRole], plan: ScalePlan) -> ClusterResource:
    """The cluster after the plan for these roles is carried out."""
    after = resource.copy()
    for role in roles:
        job, now = role.elastic, role.elastic.parallelism
        to = plan.targets.get(role.id, now)
        account(after, job, to - now)
        for node in placed_nodes(job)[to:]:
            if node in after.nodes.cpu_idle_milli:
                take(after, job, node, -1)
        for node in plan.places.get(role.id, ()) if to > now else ():
            take(after, job, node, 1)
    return after


def _placed(problem: Problem, targets: Mapping[RoleId, int]) -> ScalePlan:
    """The plan with these targets, as far as nodes have room for them."""
    # Each policy planned with the nodes that the division freed, and the other policies may have freed different ones.
    # A later run adds the replicas that find no node in this plan.
    trial = Trial(problem)
    wanted = [targets.get(role.id, role.elastic.parallelism) for role in trial.roles]
    # All gifts first, since they make room for what is added.
    for i, target in enumerate(wanted):
        while trial.count(i) > target:
            trial.give(i)
    for i, target in enumerate(wanted):
        while trial.count(i) < target and (node := trial.room(i)) != NO_ROOM:
            trial.add(i, node)
    return trial.plan()


@dataclass(frozen=True, slots=True)
class WrongPolicyName:
    """A job, or its namespace, names a policy that does not exist."""

    job: str
    why: str

    def __str__(self) -> str:
        return f"{self.job}: {self.why}"
