"""Replicas go where they add most speed for their share of the cluster. The weight of a job grows while it waits, so
that no job starves. Pure; changes none of its arguments."""

from __future__ import annotations

import math

from tjworker.autoscale.policies.by_speed import explain_by_speed, plan_by_speed
from tjworker.autoscale.problem import ElasticRole, Problem, Reason, ScalePlan
from tjworker.autoscale.speed import SpeedCurve, learned_throughput

PREFERENCE: float = 0.25
GRACE_SECONDS = 600.0


def plan(problem: Problem) -> ScalePlan:
    return plan_by_speed(problem, _learn, _weigh)


def explain(problem: Problem, made: ScalePlan, role: ElasticRole) -> Reason:
    return explain_by_speed(problem, made, role, _learn)


def _learn(role: ElasticRole) -> SpeedCurve:
    return learned_throughput(role.progress, role.batch_size)


def _weigh(problem: Problem, role: ElasticRole, curve: SpeedCurve) -> float:
    # A job that is old and has received little service comes first.
    submitted = role.owner.submitted_at
    age = max(0.0, problem.now - submitted) if submitted is not None else 0.0
    return role.owner.weight * math.pow((age + GRACE_SECONDS) / (role.service + GRACE_SECONDS), PREFERENCE)
