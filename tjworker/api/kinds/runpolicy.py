"""KubeDL's RunPolicy, which every kind of job has: one model, one set of bounds. Pure."""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.model import CleanPodPolicy

MAX_PODS = 50_000
MAX_INT32 = 2**31 - 1


def min_available_rule(replicas: str) -> dict[str, str]:
    """The CEL rule of a spec that has a RunPolicy. `replicas`: an expression, of all that the job has."""
    given = "self.runPolicy.schedulingPolicy.minAvailable"
    return {
        "rule": (
            f"!has(self.runPolicy) || !has(self.runPolicy.schedulingPolicy) || !has({given}) || {given} <= {replicas}"
        ),
        "fieldPath": ".runPolicy.schedulingPolicy.minAvailable",
        "message": "minAvailable must be at most the sum of all replicas",
        "messageExpression": (
            f"'minAvailable is %d, it must be at most the sum of all replicas (%d)'.format([{given}, {replicas}])"
        ),
    }


class SchedulingPolicy(CamelModel):
    """How the scheduler takes the pods of the job."""

    min_available: int | None = Field(
        None,
        ge=1,
        le=MAX_PODS,
        description=(
            "pods that start together or not at all, where the operator has a gang scheduler (else the condition "
            "Created says so). At most the sum of all replicas; default: all, of an elastic role its minReplicas"
        ),
    )


class RunPolicy(CamelModel):
    """The job as a whole, in the words of the KubeDL job API."""

    clean_pod_policy: CleanPodPolicy | None = Field(
        None, description="as spec.cleanPodPolicy; a job that sets both sets them alike"
    )
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="seconds after its end when the job is deleted with all it owns; default: never",
    )
    active_deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_INT32,
        description=(
            "seconds from the job's start (status.startTime) after which it fails with the reason "
            "DeadlineExceeded; time spent suspended does not count. Default: no limit"
        ),
    )
    backoff_limit: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description=(
            "restarts of all roles together, for failures of their own programs: eviction, preemption and lost nodes "
            "do not count. A pod that fails after that stays failed, and failPolicy of its role and of the job say "
            "whether that ends the job. Default: no limit"
        ),
    )
    scheduling_policy: SchedulingPolicy | None = Field(None, description="how the scheduler takes the pods of the job")
