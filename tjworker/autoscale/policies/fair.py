"""Weighted max-min shares of the dominant resource: equal jobs get equal shares, whichever came first. Pure; changes
none of its arguments.

The dominant resource of a role is the resource of which a replica takes the greatest part of the cluster (Ghodsi et
al., "Dominant Resource Fairness", NSDI 2011). A replica goes from one role to another if the receiver's share is still
smaller than the giver's afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from tjworker.autoscale.obstacle import why_no_room
from tjworker.autoscale.policies.words import of_bounds, of_shrinking
from tjworker.autoscale.problem import ElasticRole, Problem, Reason, ScalePlan
from tjworker.autoscale.sharing import dominant_share, share_out

STEEPNESS = 8
"""The alpha of alpha-fairness: the higher, the closer to max-min. It matters only if replicas of several roles make
room for one larger replica. Between replicas of one size any value gives the same shares."""


def plan(problem: Problem) -> ScalePlan:
    return share_out(problem, _Shares(problem))


class _Shares:
    """`sharing.Values`: a replica is worth more, the smaller the share of its role is with it."""

    def __init__(self, problem: Problem) -> None:
        roles = sorted(problem.roles, key=lambda role: role.id)
        self._one = [dominant_share(role.elastic, problem.resource, problem.max_load_desired) for role in roles]
        self._scale = [role.owner.weight / one for role, one in zip(roles, self._one, strict=True)]
        # Relative to the greatest, so that no power overflows.
        top = max(self._scale, default=1.0)
        self._scale = [scale / top for scale in self._scale]

    def steps(self, i: int, now: int) -> Sequence[int]:
        return (now + 1,)

    def gain(self, i: int, low: int, high: int) -> float:
        if high == low + 1:
            return self._one[i] * (self._scale[i] / high) ** STEEPNESS
        return self._one[i] * sum((self._scale[i] / n) ** STEEPNESS for n in range(low + 1, high + 1))

    def disturbance(self, i: int) -> float:
        # A job has a right to its share, whatever the move costs.
        return 0.0


def share(problem: Problem, role: ElasticRole, replicas: int) -> float:
    """The part of the cluster that so many replicas of the role take, divided by the weight of its job."""
    one = dominant_share(role.elastic, problem.resource, problem.max_load_desired)
    return replicas * one / role.owner.weight


def explain(problem: Problem, made: ScalePlan, role: ElasticRole) -> Reason:
    now, to = role.elastic.parallelism, made.targets.get(role.id, role.elastic.parallelism)
    part = f"{share(problem, role, to):.1%} of the cluster"
    if to > now:
        return Reason("room", f"its fair share is {part}")
    if to < now:
        return of_bounds(role) or of_shrinking(problem, made, role, f"its fair share is {part}")
    if role.ceiling_because:
        return Reason("", role.ceiling_because)
    greatest = max((share(problem, other, other.elastic.parallelism) for other in problem.roles), default=0.0)
    if greatest > 0:
        return Reason("", f"it has {part}, the greatest share is {greatest:.1%}: {why_no_room(problem, role)}")
    return Reason("", why_no_room(problem, role))
