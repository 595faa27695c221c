"""KubeDL's RunPolicy, one model for all kinds of jobs. Pure."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.quantity import Quantity
from tjworker.api.model import CleanPodPolicy, GangPolicy
from tjworker.api.podgroups import QUEUE_ANNOTATION
from tjworker.api.podtemplate import NAME_OR_NONE

MAX_PODS = 50_000
# A `maximum` in place of `format: int32`: for a larger value the format adds a second error, without a path (ADR 6).
MAX_INT32 = 2**31 - 1
CleanPodPolicyOrNone = Annotated[
    CleanPodPolicy | None,
    BeforeValidator(
        lambda value: None if value == "" else value,
        json_schema_input_type=Literal["", "All", "Running", "None"] | None,
    ),
]
"""KubeDL's CleanPodPolicyUndefined is the empty text: Go clients write it for a policy that is not set."""


def min_available_rule(replicas: str) -> dict[str, str]:
    """The CEL rule of a spec with a RunPolicy. `replicas`: the expression for the number of all replicas."""
    # Each parent needs its own `has`: CEL fails on an absent field, and the API server takes a failed rule for a
    # refusal.
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
    """How the scheduler handles the pods of the job."""

    min_available: int | None = Field(
        None,
        ge=1,
        le=MAX_PODS,
        description=(
            "pods that start together or not at all, where the operator has a gang scheduler (else the condition "
            "Created says so). At most the sum of all replicas; default: all, of an elastic role its minReplicas"
        ),
    )
    queue: str | None = Field(
        None,
        max_length=253,
        pattern=NAME_OR_NONE,
        description=f"queue of the PodGroup (Volcano). Default: the job's annotation {QUEUE_ANNOTATION}",
    )
    priority_class: str | None = Field(
        None,
        max_length=253,
        pattern=NAME_OR_NONE,
        description="PriorityClass of the PodGroup, and of pods whose template names none. Default: spec.priority,"
        " where there is such a class",
    )
    min_resources: dict[str, Quantity] | None = Field(
        None, max_length=32, description="total resources of the pods that start together (Volcano, scheduler-plugins)"
    )
    schedule_timeout_seconds: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="how long pods that have found room wait for the others (scheduler-plugins)",
    )


def gang_policy(policy: SchedulingPolicy | None) -> GangPolicy:
    if policy is None:
        return GangPolicy()
    return GangPolicy(
        queue=policy.queue or "",
        priority_class=policy.priority_class or "",
        min_resources=policy.min_resources or {},
        schedule_timeout_seconds=policy.schedule_timeout_seconds,
    )


class RunPolicy(CamelModel):
    """Policies for the whole job, as in the KubeDL job API."""

    # No schema default: the spec itself may set the policy, too, and a filled-in value would contradict it (ADR 6).
    clean_pod_policy: CleanPodPolicyOrNone = Field(
        None, description='same as spec.cleanPodPolicy; if both are set, they must agree. "": not set'
    )
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="seconds from its end to the deletion of the job and all it owns; default: never",
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
            "restarts of all roles together for failures of their programs: eviction, preemption and lost nodes "
            "do not count. A pod that fails after that stays failed, and failPolicy of its role and of the job say "
            "whether that ends the job. Default: no limit"
        ),
    )
    scheduling_policy: SchedulingPolicy | None = Field(
        None, description="how the scheduler handles the pods of the job"
    )
