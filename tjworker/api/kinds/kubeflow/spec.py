"""What the specs of Kubeflow's job kinds (kubeflow.org/v1) have in common, as pydantic models. Pure.

Names, bounds and defaults are those of training-operator 1.9. Its schema spells out the whole pod template; here that
is the part that the operator reads, and the API server judges the rest when a pod is made.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tjworker.api.kinds.aitrainingjob.rules import MAX_REPLICAS
from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.runpolicy import MAX_INT32, MAX_PODS
from tjworker.api.podtemplate import PRESERVE, PodTemplate

KubeflowRestartPolicy = Literal["", "Always", "OnFailure", "Never", "ExitCode"]
KubeflowCleanPodPolicy = Literal["", "All", "Running", "None"]
OWN_CONTROLLER = "kubeflow.org/training-operator"
OWN_CONTROLLERS = ("", OWN_CONTROLLER, "kubeflow.org/mpi-operator")
"""`managedBy` of a job that no other controller has."""


class AsWritten(BaseModel):
    """Kept as the user wrote it, with whatever fields."""

    model_config = ConfigDict(frozen=True, extra="allow", json_schema_extra=PRESERVE)


class SchedulingPolicy(CamelModel):
    """How a gang scheduler takes the pods of the job."""

    min_available: int | None = Field(
        None, ge=1, le=MAX_PODS, description="pods that are scheduled together; at most all"
    )
    queue: str | None = Field(None, description="queue of the PodGroup; not acted on, the condition Created says so")
    min_resources: AsWritten | None = Field(None, description="of the PodGroup; not acted on")
    priority_class: str | None = Field(
        None, description="of the PodGroup; not acted on: set priorityClassName in the templates"
    )
    schedule_timeout_seconds: int | None = Field(None, description="of the PodGroup; not acted on")


class RunPolicy(CamelModel):
    """The job as a whole."""

    clean_pod_policy: KubeflowCleanPodPolicy | None = Field(
        None, description="which pods go when the job has ended: `All`, those still `Running`, or `None`. Default: None"
    )
    ttl_seconds_after_finished: int | None = Field(
        None, ge=0, le=MAX_INT32, description="seconds after its end when the job is deleted; default: never"
    )
    active_deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_INT32,
        description="seconds from the job's start after which it fails; time spent suspended does not count",
    )
    backoff_limit: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="restarts for the job's own failures; one more failure ends it. Default: no limit",
    )
    scheduling_policy: SchedulingPolicy | None = Field(None, description="how a gang scheduler takes the pods")
    suspend: bool | None = Field(None, description="true: the pods go and the job waits. false: it goes on")
    managed_by: str | None = Field(
        None,
        description=f"another controller that has the job, such as kueue.x-k8s.io/multikueue; then nothing is done with"
        f" it here. Default: {OWN_CONTROLLER}",
        json_schema_extra={
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "managedBy cannot change"}]
        },
    )


class ReplicaSpec(CamelModel):
    """The pods of one role."""

    replicas: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="how many pods the role has. Default: 1")
    restart_policy: KubeflowRestartPolicy | None = Field(
        None,
        description="which failed pods are replaced: `Always` and `OnFailure` all, `ExitCode` those with exit codes"
        " from 128 on, and those whose node failed, `Never` none",
    )
    template: PodTemplate = Field(description="pod template of the role's pods; its own restartPolicy stands back")


class ElasticPolicy(CamelModel):
    """Bounds between which the number of workers may change while the job runs."""

    min_replicas: int | None = Field(None, ge=1, le=MAX_REPLICAS, description="fewest workers. Default: maxReplicas")
    max_replicas: int | None = Field(None, ge=1, le=MAX_REPLICAS, description="most workers. Default: minReplicas")
    max_restarts: int | None = Field(None, ge=0, le=MAX_INT32, description="restarts that each pod's launcher makes")
    metrics: list[AsWritten] | None = Field(
        None,
        max_length=64,
        description="of a HorizontalPodAutoscaler; not acted on, the condition Created says so: make one for the job's"
        " scale subresource, or leave it to the autoscaler",
    )


def role_rules(names: tuple[str, ...], kind: str) -> dict[str, Any]:
    """The set of role names of a kind, in any case of their letters."""
    listed = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return {
        "x-kubernetes-validations": [
            {
                "rule": f"self.all(r, r.matches('(?i)^({'|'.join(names)})$'))",
                "message": f"a role of a {kind} is {listed}",
            }
        ]
    }
