"""Reasons that several policies give. Pure."""

from __future__ import annotations

from tjworker.autoscale.problem import ElasticRole, Problem, Reason, ScalePlan


def of_bounds(role: ElasticRole) -> Reason | None:
    """The reason why a role with more than its maximum shrinks; None for any other role."""
    if role.elastic.parallelism <= role.elastic.max_instance:
        return None
    return Reason("bounds", f"no more than maxReplicas ({role.elastic.max_instance})")


def of_shrinking(problem: Problem, made: ScalePlan, role: ElasticRole, why: str) -> Reason:
    """The reason why the plan takes replicas of the role. `why`: a clause that says why from this role."""
    if waiting := problem.who_needs_room(role):
        return Reason("need", f"room is needed{waiting}; {why}")
    # No pod waits, so the plan trades room between jobs.
    grown = [
        other
        for other in problem.roles
        if made.targets.get(other.id, other.elastic.parallelism) > other.elastic.parallelism
    ]
    if not grown:
        return Reason("need", f"room is needed; {why}")
    first = min(grown, key=lambda other: other.id)
    more = f" and {len(grown) - 1} more" if len(grown) > 1 else ""
    return Reason("shared", f"its room goes to {job_name(first)}{more}; {why}")


def job_name(role: ElasticRole) -> str:
    """`namespace/name`."""
    return "/".join(role.id.job.split("/")[-2:])
