"""Replicas go where they speed up the progress of trainings most; jobs with little work left are preferred. Pure;
changes none of its arguments.

The speed of a training is its samples per second times the worth of a sample at its batch size
(`speed.learned_goodput`). A job that reports its progress has the weight 1 / (remaining work) ** 0.25: the shortest job
first lowers the mean completion time. Any other job has the weight 1 / (service + 20 min) ** 0.25: a job that has run
for long will, on average, go on for long. The weights multiply logarithms of speed, so they count more than the same
power of speed would.
"""

from __future__ import annotations

import math

from tjworker.autoscale.policies.by_speed import explain_by_speed, plan_by_speed
from tjworker.autoscale.problem import ElasticRole, Problem, Reason, ScalePlan
from tjworker.autoscale.speed import SpeedCurve, learned_goodput

PREFERENCE: float = 0.25
SERVICE_SECONDS = 1200.0
LEAST_WORK = 30.0
"""Replica-seconds. The weight of a job that is about to end grows no further."""


def plan(problem: Problem) -> ScalePlan:
    return plan_by_speed(problem, _learn, _weigh)


def explain(problem: Problem, made: ScalePlan, role: ElasticRole) -> Reason:
    return explain_by_speed(problem, made, role, _learn)


def _learn(role: ElasticRole) -> SpeedCurve:
    return learned_goodput(role.progress, role.batch_size)


def _weigh(problem: Problem, role: ElasticRole, curve: SpeedCurve) -> float:
    left = role.progress.remaining_seconds if role.progress is not None else None
    if left is None or left < 0:
        return role.owner.weight / math.pow(role.service + SERVICE_SECONDS, PREFERENCE)
    # In seconds of one replica: the reported time holds for the present size alone.
    work = left * curve.at(max(1, role.elastic.parallelism))
    return role.owner.weight / math.pow(max(LEAST_WORK, work), PREFERENCE)
