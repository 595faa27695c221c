"""Replicas go where they bring trainings on most, short remainders first. Pure; changes none of its arguments.

The speed of a training is that of its samples times what each is worth at its batch size (`speed.learned_goodput`). A
job that reports its progress weighs 1 / (remaining work) ** 0.25, as the shortest job first lowers the mean completion
time; any other 1 / (service + 20 min) ** 0.25, as a job that has run for long will, on the whole, run for long. As the
logarithm of speed counts, that is a stronger preference than the same power of speed would be.
"""

from __future__ import annotations

import math

from tjworker.autoscale.policies.by_speed import explain_by_speed, plan_by_speed
from tjworker.autoscale.problem import ElasticRole, Plan, Problem, Reason
from tjworker.autoscale.speed import SpeedCurve, learned_goodput

PREFERENCE: float = 0.25
SERVICE_SECONDS = 1200.0
LEAST_WORK = 30.0
"""Replica-seconds: what is about to end is not worth a move more for each second less."""


def plan(problem: Problem) -> Plan:
    return plan_by_speed(problem, _learn, _weigh)


def explain(problem: Problem, made: Plan, role: ElasticRole) -> Reason:
    return explain_by_speed(problem, made, role, _learn)


def _learn(role: ElasticRole) -> SpeedCurve:
    return learned_goodput(role.progress, role.batch_size)


def _weigh(problem: Problem, role: ElasticRole, curve: SpeedCurve) -> float:
    left = role.progress.remaining_seconds if role.progress is not None else None
    if left is None or left < 0:
        return role.owner.weight / math.pow(role.service + SERVICE_SECONDS, PREFERENCE)
    work = left * curve.at(max(1, role.elastic.parallelism))
    return role.owner.weight / math.pow(max(LEAST_WORK, work), PREFERENCE)
