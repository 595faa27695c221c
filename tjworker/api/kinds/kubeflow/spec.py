"""The fields that only Kubeflow's job kinds (kubeflow.org/v1) have. Pure.

Names, bounds and defaults are those of training-operator 1.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ConfigDict, Field

from tjworker.api.ignored import Ignored
from tjworker.api.kinds.aitrainingjob.rules import Rule
from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.spec import AsWritten, ElasticBounds, RunFields, SchedulingFields
from tjworker.api.kinds.runpolicy import MAX_INT32

OWN_CONTROLLER, OWN_MPI_CONTROLLER = "kubeflow.org/training-operator", "kubeflow.org/mpi-operator"
OWN_CONTROLLERS = ("", OWN_CONTROLLER, OWN_MPI_CONTROLLER)
"""Values of `managedBy` for jobs of this operator."""
# MultiKueue runs a copy of the job in another cluster. Without this field both clusters would run the job.
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
MAX_MANAGER = 253


class SchedulingPolicy(SchedulingFields):
    """How a gang scheduler handles the pods of the job."""

    queue: str | None = Field(
        None,
        max_length=253,
        description="queue of the PodGroup (Volcano); it cannot change",
        json_schema_extra={
            "x-kubernetes-validations": [
                {"rule": "self == oldSelf", "message": "spec.runPolicy.schedulingPolicy.queue is immutable"}
            ]
        },
    )
    min_resources: AsWritten | None = Field(
        None, description="total resources that the PodGroup requests (Volcano, scheduler-plugins)"
    )
    priority_class: str | None = Field(
        None, max_length=253, description="PriorityClass of the PodGroup, and of pods whose template names none"
    )
    schedule_timeout_seconds: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="how long pods of the PodGroup that have found room wait for the others (scheduler-plugins)",
    )


class RunPolicy(RunFields):
    """Policies for the whole job."""

    scheduling_policy: SchedulingPolicy | None = Field(None, description="how a gang scheduler handles the pods")
    managed_by: str | None = Field(
        None,
        max_length=MAX_MANAGER,
        description=f"{MULTIKUEUE}: MultiKueue manages the job, and the operator ignores it. The other value is the"
        f" default, {OWN_CONTROLLER}; of an MPIJob of v2beta1 {OWN_MPI_CONTROLLER}",
        json_schema_extra={
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "managedBy cannot change"}]
        },
    )


_HAS_MANAGER = "has({0}.runPolicy) && has({0}.runPolicy.managedBy)"
# The API server skips a transition rule on the field itself if an edit adds or removes the field.
_NOT_SET_LATER: Rule = {
    "rule": f"({_HAS_MANAGER.format('self')}) == ({_HAS_MANAGER.format('oldSelf')})",
    "message": "runPolicy.managedBy cannot be set or unset later; delete the job and create it again",
}


def spec_rules(*managers: tuple[str, str]) -> dict[str, Any]:
    """The CEL rules of a spec, by the webhook of training-operator (`ValidateRunPolicyCreate`) and the MPI operator.
    `managers`: (CEL condition on the spec or "", default of managedBy in that case)."""
    return {"x-kubernetes-validations": [_NOT_SET_LATER, *(_managers(case, own) for case, own in managers)]}


def _managers(case: str, own: str) -> Rule:
    known = f"self.runPolicy.managedBy in ['{own}', '{MULTIKUEUE}']"
    message = f"must be {own} or {MULTIKUEUE}; leave the field out for a job of this operator"
    other_case = f"!({case}) || " if case else ""
    return {
        "rule": f"{other_case}!({_HAS_MANAGER.format('self')}) || {known}",
        "fieldPath": ".runPolicy.managedBy",
        "message": message,
        "messageExpression": f"'%s: {message}'.format([self.runPolicy.managedBy])",
    }


class KubeflowSpec(CamelModel):
    """The fields of every job of Kubeflow."""

    model_config = ConfigDict(json_schema_extra=spec_rules(("", OWN_CONTROLLER)))
    run_policy: RunPolicy | None = Field(None, description="policies for the whole job")


class ElasticPolicy(ElasticBounds):
    """Bounds of the number of workers, which may change while the job runs."""

    max_restarts: int | None = Field(None, ge=0, le=MAX_INT32, description="restarts that each pod's launcher makes")
    metrics: list[AsWritten] | None = Field(
        None,
        max_length=64,
        description="metrics of a HorizontalPodAutoscaler; ignored, the condition Created says so: create one for the"
        " job's scale subresource, or use the autoscaler",
    )


def metrics_ignored(elastic: ElasticPolicy | None) -> Iterator[Ignored]:
    if elastic is not None and elastic.metrics:
        yield Ignored("spec.elasticPolicy.metrics")
