"""The common fields of other operators' job kinds, as pydantic models. Pure.

Names, bounds and defaults are those of the other operators. Their schemas have the whole pod template. Here it has the
fields that the operator reads; the API server checks the rest when a pod is created.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tjworker.api.kinds.aitrainingjob.rules import MAX_REPLICAS
from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.runpolicy import MAX_INT32, MAX_PODS
from tjworker.api.podtemplate import PRESERVE, PodTemplate
from tjworker.base import with_article

# "" is what Go's clients write for a policy that is not set, so the enum has it.
GuestRestartPolicy = Literal["", "Always", "OnFailure", "Never", "ExitCode"]
GuestCleanPodPolicy = Literal["", "All", "Running", "None"]


class AsWritten(BaseModel):
    """Any fields, kept as written."""

    model_config = ConfigDict(frozen=True, extra="allow", json_schema_extra=PRESERVE)


class SchedulingFields(CamelModel):
    """How a gang scheduler handles the pods of the job."""

    min_available: int | None = Field(
        None, ge=1, le=MAX_PODS, description="number of pods that start together; at most all"
    )


class RunFields(CamelModel):
    """Policies for the whole job."""

    clean_pod_policy: GuestCleanPodPolicy | None = Field(
        None,
        description=(
            "which pods are deleted when the job has ended: `All`, the `Running` ones, or `None`. Default: None"
            " (a TFJob, an XDLJob, an MPIJob and an ElasticDLJob of KubeDL: Running)"
        ),
    )
    ttl_seconds_after_finished: int | None = Field(
        None, ge=0, le=MAX_INT32, description="seconds from its end to the deletion of the job; default: never"
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
        description=(
            "restarts for the program's failures; one more failure ends the job. Default: no limit (an XDLJob: 20)"
        ),
    )
    scheduling_policy: SchedulingFields | None = Field(None, description="how a gang scheduler handles the pods")
    suspend: bool | None = Field(None, description="true: the pods are deleted and the job waits. false: it continues")


class ReplicaSpec(CamelModel):
    """The pods of one role."""

    replicas: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="number of pods of the role. Default: 1")
    restart_policy: GuestRestartPolicy | None = Field(
        None,
        description="which failed pods are replaced: `Always` and `OnFailure` all, `ExitCode` pods with exit codes from"
        " 128 on and pods whose node failed, `Never` none",
    )
    template: PodTemplate = Field(
        description="pod template of the role's pods; the template's restartPolicy is ignored"
    )


class ElasticBounds(CamelModel):
    """Bounds of the number of workers, which may change while the job runs."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                    "fieldPath": ".minReplicas",
                    "message": "minReplicas must be at most maxReplicas",
                }
            ]
        }
    )

    min_replicas: int | None = Field(None, ge=1, le=MAX_REPLICAS, description="fewest workers. Default: maxReplicas")
    max_replicas: int | None = Field(None, ge=1, le=MAX_REPLICAS, description="most workers. Default: minReplicas")


def elastic_bounds(elastic: ElasticBounds, worker: ReplicaSpec) -> tuple[int, int]:
    """(fewest, most) workers. A missing bound equals the other; without bounds the number is fixed."""
    replicas = replicas_of(worker)
    least = elastic.min_replicas or elastic.max_replicas or replicas
    return least, elastic.max_replicas or least


def replicas_of(role: ReplicaSpec) -> int:
    return 1 if role.replicas is None else role.replicas


def role_rules(
    names: tuple[str, ...], kind: str, *, lone: tuple[str, ...] = (), needed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The CEL rules of the map of roles. `names`: the valid names, in any case. `lone`: roles with one replica.
    `needed`: required roles."""
    listed = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return {
        "x-kubernetes-validations": [
            {
                # `(?i)`, because the kinds' own operators accept the names of roles in any case.
                "rule": f"self.all(r, r.matches('(?i)^({'|'.join(names)})$'))",
                "message": f"a role of {with_article(kind)} is {listed}",
            },
            *(
                {
                    "rule": f"self.all(r, !has(self[r].replicas) || self[r].replicas == 1"
                    f" || !r.matches('(?i)^{name}$'))",
                    "message": f"{with_article(kind)} has one {name}: set its replicas to 1",
                }
                for name in lone
            ),
            *(
                {
                    "rule": f"self.exists(r, r.matches('(?i)^{name}$'))",
                    "message": f"{with_article(kind)} has a {name}: add it",
                }
                for name in needed
            ),
            {
                "rule": "self.exists(r, !has(self[r].replicas) || self[r].replicas > 0)",
                "message": "at least one role must have replicas; suspend the job to let it wait without pods",
            },
        ]
    }
