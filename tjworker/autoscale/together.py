"""One plan of all policies that jobs of a cluster have chosen. Pure; changes none of its arguments.

The policy `fair` divides the cluster among all roles. What the roles of one policy get of it together is the part of
that policy, which it deals out to its roles by its own rule. A policy that leaves some of its part unused leaves it to
the policies after it. So no policy takes more for its jobs because it plans first, and a namespace gains no room by a
choice of policy.

The order is fixed: `PLANNED_FIRST`, then the rest of the registry. The order decides only who may use what others
leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tjworker.autoscale.dryrun import account, take
from tjworker.autoscale.fitting import check_plan
from tjworker.autoscale.policies import POLICIES
from tjworker.autoscale.problem import ElasticRole, Plan, Problem, RoleId
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.trial import NO_ROOM, Trial, placed_nodes

DIVIDES = "fair"
"""The policy that says how much room the roles of each policy get together."""
PLANNED_FIRST = ("goodput", "throughput", "fair")
"""Those that may leave room unused, because a replica more is worth less than a move."""


def plan_together(problem: Problem, default: str) -> Plan:
    """Within the bounds of all roles. `default`: the policy of the roles that name none. Raises PlanRejected for a
    policy whose own plan breaks a rule, and what a policy raises."""
    groups = by_policy(problem.roles, default)
    if len(groups) < 2:
        return POLICIES[next(iter(groups), default)].plan(problem)
    division = POLICIES[DIVIDES].plan(problem)
    targets, places = dict(division.targets), dict(division.places)
    for name, own in groups.items():
        others = [role for role in problem.roles if policy_of(role, default) != name]
        resource = carried_out(problem.resource, others, Plan(targets, places))
        part = replace(problem, roles=own, resource=resource)
        made = POLICIES[name].plan(part)
        check_plan(part, made)
        for role in own:
            targets[role.id] = made.targets.get(role.id, role.elastic.parallelism)
            places[role.id] = tuple(made.places.get(role.id, ()))
    return _placed(problem, targets)


def policy_of(role: ElasticRole, default: str) -> str:
    return role.policy or default


def by_policy(roles: Iterable[ElasticRole], default: str) -> dict[str, list[ElasticRole]]:
    """The roles of each policy that has some, in the order in which the policies plan."""
    order = [*PLANNED_FIRST, *(name for name in POLICIES if name not in PLANNED_FIRST)]
    found: dict[str, list[ElasticRole]] = {name: [] for name in order}
    for role in roles:
        found[policy_of(role, default)].append(role)
    return {name: own for name, own in found.items() if own}


def carried_out(resource: ClusterResource, roles: Sequence[ElasticRole], plan: Plan) -> ClusterResource:
    """The cluster once the plan for these roles is carried out."""
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


def _placed(problem: Problem, targets: Mapping[RoleId, int]) -> Plan:
    """The plan with these targets. Each policy planned with nodes that the division, not the other policies, had
    freed: a replica that has no node after all is added by a later run."""
    trial = Trial(problem)
    wanted = [targets.get(role.id, role.elastic.parallelism) for role in trial.roles]
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
