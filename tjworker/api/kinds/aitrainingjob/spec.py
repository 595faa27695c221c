"""The spec of an AITrainingJob (elasticdeeplearning.ai) as pydantic models: all fields with their bounds.

The CRD's schema (`api.crd`) and the reference (`api.reference`) are generated from them. Pure. The fields are those of
the trainingjob-operator; run policy and scheduling policy are those of KubeDL's job API.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field

from tjworker.api.kinds.aitrainingjob import rules
from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.batchsize import BatchSizeSpec
from tjworker.api.kinds.runpolicy import MAX_INT32, CleanPodPolicyOrNone, RunPolicy
from tjworker.api.model import EdlPolicy, EndPolicy, FrameworkType, JobEndPolicy, RestartPolicy, RestartScope
from tjworker.api.podtemplate import LABEL_VALUE, PodTemplate


class ReplicaSpec(CamelModel):
    """A role of the job: its pods, their number, and the policies for failed and succeeded pods."""

    model_config = ConfigDict(json_schema_extra=rules.extension(*rules.REPLICAS))

    replicas: int = Field(
        1,
        ge=0,
        le=rules.MAX_REPLICAS,
        description="number of pods of the role. `kubectl scale` and the autoscaler change it",
    )
    min_replicas: int | None = Field(
        None, ge=0, le=rules.MAX_REPLICAS, description="the fewest pods that the role can work with; default: replicas"
    )
    max_replicas: int | None = Field(
        None,
        ge=1,
        le=rules.MAX_REPLICAS,
        description=(
            "the most pods that the role can use. The role is elastic if minReplicas < maxReplicas; default: replicas"
        ),
    )
    # Manual by default: users expect `kubectl scale` to work, and no autoscaler that they did not ask for (ADR 6).
    edl_policy: EdlPolicy = Field(
        "Manual",
        description=(
            "how replicas may change: `Auto` by the autoscaler, between minReplicas and maxReplicas; `Manual` by "
            "users only (kubectl scale); `Never` not at all"
        ),
    )
    batch_size: BatchSizeSpec | None = Field(
        None,
        description=(
            "batch sizes with which the training converges, for the autoscaling policy `goodput`. Default: the "
            "batch size does not change with the number of pods"
        ),
    )
    restart_limit: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description=(
            "restarts of the role for its own failures; one more failure is final. Eviction, preemption and lost "
            "nodes do not count. Default: no limit"
        ),
    )
    restart_policy: RestartPolicy = Field(
        "Never",
        description=(
            "which failed pods are replaced: `Never` none; `Always` all; `OnFailure` pods whose program failed; "
            "`OnNodeFail` pods whose node or GPU failed; `ExitCode` pods whose program failed with a retryable exit "
            "code (restartingExitCode); `OnNodeFailWithExitCode` the pods of both OnNodeFail and ExitCode"
        ),
    )
    restart_scope: RestartScope = Field(
        "All",
        description=(
            "what a restart replaces: `Pod` the failed pod, `Replica` all pods of its role, `All` all pods of the job"
        ),
    )
    fail_policy: EndPolicy = Field(
        "Any",
        description=(
            "the role has failed when `Any` pod, the `Rank0` pod (index 0) or `All` pods have failed for good; "
            "`None`: never"
        ),
    )
    complete_policy: EndPolicy = Field(
        "All",
        description=(
            "the role is complete when `All` pods, `Any` pod or the `Rank0` pod (index 0) has succeeded; "
            "`None`: never by itself"
        ),
    )
    template: PodTemplate = Field(description="pod template of the role's pods, with at least one container")


class AITrainingJobSpec(CamelModel):
    """Specification of the job."""

    model_config = ConfigDict(json_schema_extra=rules.extension(*rules.SPEC))

    framework_type: FrameworkType | None = Field(
        None,
        description=(
            "the training framework. It decides which variables and files its launcher finds in the pods, besides "
            "TRAININGJOB_* and the variables of the roles (docs/frameworks), the port of its services, which pod is "
            "the master, and which pods are created first. Empty: any"
        ),
    )
    fault_tolerant: bool = Field(
        False,
        description=(
            "the training program tolerates lost and added pods. Informational: restartPolicy and restartScope decide"
        ),
    )
    priority: str | None = Field(
        None,
        max_length=63,
        pattern=LABEL_VALUE,
        description=(
            "label `priority` of the pods, and their priorityClassName if the cluster has such a PriorityClass"
        ),
    )
    scheduler_name: str | None = Field(
        None, max_length=253, description="scheduler of the pods; default: the template's, else the cluster's"
    )
    time_limit: int | None = Field(
        None,
        ge=1,
        le=MAX_INT32,
        description=(
            "seconds from when the job first ran (status.startRunningTime) to its end in the phase Timeout; time "
            "spent suspended does not count. Default: no limit"
        ),
    )
    restarting_exit_code: str | None = Field(
        None,
        max_length=2048,
        description='retryable exit codes, 0 to 255, separated by commas, such as "137,128". Default: 128 to 255',
        json_schema_extra=rules.extension(*rules.CODES),
    )
    clean_pod_policy: CleanPodPolicyOrNone = Field(
        None,
        description=(
            "which pods are deleted when the job has ended: `All`, the `Running` ones, or `None`; services are deleted "
            'with the pods. Default, and "": All'
        ),
    )
    fail_policy: JobEndPolicy = Field(
        "Any", description="the job fails when `Any` role or `All` roles have failed; `None`: never"
    )
    complete_policy: JobEndPolicy = Field(
        "All", description="the job succeeds when `All` roles or `Any` role is complete; `None`: never by itself"
    )
    suspend: bool = Field(
        False, description="true: the pods are deleted, the job waits and its time limits stop. false: it continues"
    )
    run_policy: RunPolicy | None = Field(None, description="policies for the whole job, as in the KubeDL job API")
    # No schema default: a filled-in number would overrule that of the role in every job.
    replicas: int | None = Field(
        None,
        ge=0,
        le=rules.MAX_REPLICAS,
        description=(
            "number of pods of the elastic role; `kubectl scale` and an HPA write it. Set it in the manifest for an "
            "HPA: else the API server has no scale to read, and the HPA reports FailedGetScale. It overrides replicas "
            "of the role, within the role's bounds. The elastic role is `trainer` if it can be scaled, else the only "
            "role with minReplicas < maxReplicas. Default: replicas of the role"
        ),
    )
    replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=rules.MAX_ROLES,
        description=(
            "roles of the job by name, 1 to 16, such as `pserver` and `trainer`. `kubectl scale` scales the elastic "
            "role (see replicas), `tj scale --role` any role. The set of roles cannot change"
        ),
        json_schema_extra=rules.extension(*rules.ROLES),
    )
