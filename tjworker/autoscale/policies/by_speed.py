"""The common part of `throughput` and `goodput`: a replica goes to the job whose speed it raises most in proportion,
times the job's weight. Pure.

The policies compare logarithms of speed: what a replica adds, in proportion to the speed that the job has already. A
comparison of speeds would send every replica to one job after another. A job that has reported one size counts as
linear, so one more replica adds as much to it at 30 replicas as at 1, and it would take the replicas of every job whose
curve bends. On the Pollux workloads (docs/elasticity.md), comparing speeds raised the mean completion time of
`throughput` from 2,633 s to 4,258 s.

A job moves only if the work that it gains within ten minutes, or until its end if that comes sooner, outweighs the
pause of its training. A role gives room only to a role that gains `HYSTERESIS` times what the giver loses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from tjworker.autoscale.obstacle import why_no_room
from tjworker.autoscale.policies.words import job_name, of_bounds, of_shrinking
from tjworker.autoscale.problem import ElasticRole, Problem, Reason, ScalePlan
from tjworker.autoscale.sharing import share_out
from tjworker.autoscale.speed import SpeedCurve

HYSTERESIS = 1.3
SMOOTH = 0.5
"""Added to the speed, in speeds of one replica, so that the logarithm of no replicas exists."""
HORIZON_SECONDS = 600.0
"""The longest time in which a move must pay off: after that, other jobs have come or gone, and the job moves again.
With the whole remaining time of a job instead, jobs of the Pollux workloads moved 50 % more often and took 2 % longer.
"""

Learn = Callable[[ElasticRole], SpeedCurve]
Weigh = Callable[[Problem, ElasticRole, SpeedCurve], float]


def plan_by_speed(problem: Problem, learn: Learn, weigh: Weigh) -> ScalePlan:
    # Compact: replicas of one job on fewer nodes synchronise faster.
    return share_out(problem, _Speeds(problem, learn, weigh), hysteresis=HYSTERESIS, compact=True)


class _Speeds:
    """`sharing.Values`, in weighted logarithms of speed."""

    def __init__(self, problem: Problem, learn: Learn, weigh: Weigh) -> None:
        roles = sorted(problem.roles, key=lambda role: role.id)
        self._curves = [learn(role) for role in roles]
        self._weights = [weigh(problem, role, curve) for role, curve in zip(roles, self._curves, strict=True)]
        # Roles with equal curves share a dict: all new jobs have the same curve.
        logs: dict[SpeedCurve, dict[int, float]] = {}
        self._logs = [logs.setdefault(curve, {}) for curve in self._curves]
        self._pauses = [role.rescale_seconds / horizon(role) for role in roles]
        self._steps: dict[int, tuple[int, ...]] = {}

    def steps(self, i: int, now: int) -> Sequence[int]:
        steps = self._steps.get(now)
        if steps is None:
            # Larger steps too: one replica more may not be worth the pause of a move, and several may.
            steps = tuple(sorted({now + 1, now + 2, now + 4, now + 8, max(1, 2 * now)}))
            self._steps[now] = steps
        return steps

    def gain(self, i: int, low: int, high: int) -> float:
        logs = self._logs[i]
        below, above = logs.get(low), logs.get(high)
        if below is None:
            below = self._log(i, low)
        if above is None:
            above = self._log(i, high)
        return self._weights[i] * (above - below)

    def _log(self, i: int, replicas: int) -> float:
        value = self._logs[i][replicas] = log(self._curves[i].at(replicas) + SMOOTH)
        return value

    def disturbance(self, i: int) -> float:
        return self._weights[i] * self._pauses[i]


def horizon(role: ElasticRole) -> float:
    """Seconds within which a move of the role must pay off; at least 1."""
    left = role.progress.remaining_seconds if role.progress is not None else None
    return HORIZON_SECONDS if left is None else max(1.0, min(HORIZON_SECONDS, left))


def explain_by_speed(problem: Problem, made: ScalePlan, role: ElasticRole, learn: Learn) -> Reason:
    now, to = role.elastic.parallelism, made.targets.get(role.id, role.elastic.parallelism)
    curve = learn(role)
    if to > now:
        faster = f" and makes it {curve.at(to) / curve.at(now) - 1:.0%} faster" if now else ""
        return Reason("room", f"{to} of {role.elastic.max_instance} is worth more to it than to others{faster}")
    if to < now:
        slower = f"it loses {1 - curve.at(to) / curve.at(now):.0%} of its speed" if curve.at(now) else "it has to give"
        return of_bounds(role) or of_shrinking(problem, made, role, slower)
    if role.ceiling_because:
        return Reason("", role.ceiling_because)
    if not now:
        return Reason("", why_no_room(problem, role))
    own = f"one more replica would speed it up by {_speedup(curve, now):.0%}"
    # Jobs of one replica are left out: without it they have no speed to compare with.
    others = [
        (_speedup(learn(other), other.elastic.parallelism - 1), job_name(other))
        for other in problem.roles
        if other.id != role.id and other.elastic.parallelism > 1
    ]
    best = max(others, key=lambda pair: (pair[0], pair[1]), default=None)
    compared = f"; its last one speeds {best[1]} up by {best[0]:.0%}" if best is not None else ""
    return Reason("", f"{own}{compared}; {why_no_room(problem, role)}")


def _speedup(curve: SpeedCurve, replicas: int) -> float:
    """By which fraction one more replica speeds the job up."""
    return curve.at(replicas + 1) / curve.at(replicas) - 1
