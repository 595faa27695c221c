"""Checks that a plan can be carried out: bounds, sums, and a node for each added replica. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from operator import attrgetter

from tjworker.autoscale.dryrun import cpu_reach
from tjworker.autoscale.fleet import Fleet, ReplicaSize
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.problem import ElasticRole, Problem, RoleId, ScalePlan
from tjworker.base import Terminal


class PlanRejected(Terminal):
    """A policy returned a plan that breaks a rule. No part of the plan is carried out."""


SHOWN_FAULTS = 3


def check_plan(problem: Problem, plan: ScalePlan) -> None:
    """Raises PlanRejected, which names the first faults, if the plan breaks a rule."""
    roles = {role.id: role for role in problem.roles}
    # Each check relies on those before it: only a role that exists, with a whole number, has requests to add up.
    faults = (
        list(_out_of_bounds(roles, plan)) or _beyond_the_sums(problem, plan) or list(_without_a_node(problem, plan))
    )
    if faults:
        more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
        raise PlanRejected(f"{'; '.join(faults[:SHOWN_FAULTS])}{more}")


def _out_of_bounds(roles: Mapping[RoleId, ElasticRole], plan: ScalePlan) -> Iterator[str]:
    for id_, to in plan.targets.items():
        role = roles.get(id_)
        if role is None:
            yield f"{id_}: no such role"
        # Not isinstance: True is an int, too, and would be written into the job's status.
        elif type(to) is not int:
            yield f"{id_}: {to!r} is no number of replicas"
        elif not _allowed(role.elastic, to):
            job = role.elastic
            yield f"{id_}: {job.parallelism} -> {to} is outside {job.lowest}..{max(job.lowest, job.highest)}"


def _allowed(job: ElasticJob, to: int) -> bool:
    """True if `to` is within the bounds, or no farther outside than the job is now, as after an edit of the spec."""
    low, high, now = job.lowest, max(job.lowest, job.highest), job.parallelism
    return min(low, now) <= to <= max(high, now)


def _changed(problem: Problem, plan: ScalePlan) -> list[tuple[ElasticRole, int]]:
    """(role, replicas more or fewer) for each role that the plan changes."""
    steps = ((role, plan.targets.get(role.id, role.elastic.parallelism)) for role in problem.roles)
    return [(role, to - role.elastic.parallelism) for role, to in steps if to != role.elastic.parallelism]


def _beyond_the_sums(problem: Problem, plan: ScalePlan) -> list[str]:
    """A fault for each resource of which the plan requests too much."""
    resource, changed = problem.resource, _changed(problem, plan)
    found = []
    for what, asked, limit, field in (
        ("milli-CPUs", resource.cpu_request_milli, cpu_reach(resource, problem.max_load_desired), "cpu_request_milli"),
        ("MB of memory", resource.memory_request_mega, resource.memory_total_mega, "memory_request_mega"),
        ("GPUs", resource.gpu_limit, resource.gpu_total, "gpu_limit"),
    ):
        amount = attrgetter(field)
        after = asked + sum(step * amount(role.elastic) for role, step in changed)
        # An excess that exists already may remain, because jobs keep their minimum. The plan may not add to it.
        if after > limit and any(step > 0 and amount(role.elastic) for role, step in changed):
            found.append(f"{after} {what} would be requested of {limit}")
    return found


def _without_a_node(problem: Problem, plan: ScalePlan) -> Iterator[str]:
    fleet, roles = _after_giving(problem, plan)
    # Replicas of one size are counted together: checking 150,000 of them one by one would take half a second.
    wanted: dict[ReplicaSize, Counter[str]] = defaultdict(Counter)
    for size, role in zip(fleet.sizes, roles, strict=True):
        more = plan.targets.get(role.id, role.elastic.parallelism) - role.elastic.parallelism
        if more <= 0:
            continue
        nodes = plan.places.get(role.id, ())
        if len(nodes) != more:
            yield f"{role.id}: {more} more replicas, and {len(nodes)} places for them"
        wanted[size].update(nodes)
    for size, counts in wanted.items():
        for name, replicas in counts.items():
            node = fleet.index.get(name, -1)
            if node < 0 or not fleet.fits(size, node, replicas):
                ids = (r.id for s, r in zip(fleet.sizes, roles, strict=True) if s is size)
                role_id = next(id_ for id_ in ids if name in plan.places.get(id_, ()))
                yield f"{role_id}: no room on node {name} for {replicas} more replicas of its size"
            else:
                fleet.take_many(size, node, replicas)


def _after_giving(problem: Problem, plan: ScalePlan) -> tuple[Fleet, list[ElasticRole]]:
    """(the cluster without the replicas that the plan removes, the roles in the order of its jobs)."""
    roles = list(problem.roles)
    # Without a reach, because only nodes count here: `_beyond_the_sums` checks the sums.
    fleet = Fleet([role.elastic for role in roles], problem.resource, 0)
    for i, role in enumerate(roles):
        fewer = role.elastic.parallelism - plan.targets.get(role.id, role.elastic.parallelism)
        if fewer > 0:
            fleet.give_up(i, fewer)
    return fleet, roles


def keep_what_fits(problem: Problem, plan: ScalePlan) -> ScalePlan:
    """The plan without the added replicas that no node has room for. A replica keeps its place if there is room, else
    it gets the first node with room.

    A policy needs this if it removes and adds replicas of one job on the way to its plan: only the difference is
    carried out, so the room of a replica that stays is not free."""
    fleet, roles = _after_giving(problem, plan)
    targets, places = dict(plan.targets), dict(plan.places)
    for i, role in enumerate(roles):
        now = role.elastic.parallelism
        more = plan.targets.get(role.id, now) - now
        if more <= 0:
            continue
        size = fleet.sizes[i]
        # Pad with '': a role may come with fewer places than replicas.
        hints = [*plan.places.get(role.id, ()), *[""] * more][:more]
        nodes = []
        for hint in hints:
            node = fleet.index.get(hint, -1)
            if node < 0 or not fleet.fits(size, node):
                node = fleet.first(size)
            if node < 0:
                break
            fleet.take(size, node)
            nodes.append(node)
        names = list(fleet.index)
        targets[role.id], places[role.id] = now + len(nodes), tuple(names[node] for node in nodes)
    return ScalePlan(targets, places)
