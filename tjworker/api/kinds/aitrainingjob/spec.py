"""The spec of an AITrainingJob (elasticdeeplearning.ai) as pydantic models: every field with its bounds.

The only source of the CRD's schema (`api.crd`) and of the reference (`api.reference`). Pure. The fields are those of
the trainingjob-operator, run policy and scheduling policy in the words of KubeDL's job API.
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
    """A role of the job: its pods, their number, and what happens when one ends."""

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
            "the most pods that the role can use. The role is elastic when minReplicas < maxReplicas; default: replicas"
        ),
    )
    # Manual by default: users expect `kubectl scale` to work, and no autoscaler that they did not ask for (ADR 6).
    edl_policy: EdlPolicy = Field(
        "Manual",
        description=(
            "who changes replicas: `Auto` the autoscaler, between minReplicas and maxReplicas; `Manual` only "
            "people (kubectl scale); `Never` neither"
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
            "which failed pods are replaced: `Never` none; `Always` all; `OnFailure` those that failed by "
            "themselves; `OnNodeFail` those whose node or GPU failed; `ExitCode` those that failed by themselves "
            "with retryable exit codes only (restartingExitCode); `OnNodeFailWithExitCode` the last two together"
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
    """What the job is to do."""

    model_config = ConfigDict(json_schema_extra=rules.extension(*rules.SPEC))

    framework_type: FrameworkType | None = Field(
        None,
        description=(
            "the training framework: it decides which variables and files its launcher finds in the pods, beside "
            "TRAININGJOB_* and those of the roles (docs/frameworks), the port of its services, which pod is the "
            "master, and which pods are made first. Empty: any"
        ),
    )
    fault_tolerant: bool = Field(
        False,
        description=(
            "the training program tolerates pods that come and go. Informational: restartPolicy and restartScope decide"
        ),
    )
    priority: str | None = Field(
        None,
        max_length=63,
        pattern=LABEL_VALUE,
        description=(
            "label `priority` of the pods, and their priorityClassName when the cluster has such a PriorityClass"
        ),
    )
    scheduler_name: str | None = Field(
        None, max_length=253, description="scheduler of the pods; default: that of the template, else the cluster's"
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
            "which pods are deleted when the job has ended: `All`, those still `Running`, or `None`; services "
            "go with the "
            'pods. Default, and "": All'
        ),
    )
    fail_policy: JobEndPolicy = Field(
        "Any", description="the job has failed when `Any` role or `All` roles have failed; `None`: never"
    )
    complete_policy: JobEndPolicy = Field(
        "All", description="the job has succeeded when `All` roles are complete or `Any` is; `None`: never by itself"
    )
    suspend: bool = Field(
        False, description="true: the pods are deleted, the job waits and its time limits stop. false: it continues"
    )
    run_policy: RunPolicy | None = Field(None, description="the job as a whole, in the words of the KubeDL job API")
    # No schema default: a filled-in number would overrule that of the role in every job.
    replicas: int | None = Field(
        None,
        ge=0,
        le=rules.MAX_REPLICAS,
        description=(
            "number of pods of the elastic role: `kubectl scale` and an HPA write it. An HPA needs "
            "it in the manifest: without it the API server has no scale to read, and the HPA says FailedGetScale. It "
            "wins over the role's own replicas and obeys its bounds. The elastic role is `trainer` where that can be "
            "scaled, else the only role with minReplicas < maxReplicas. Default: the role's own replicas"
        ),
    )
    replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=rules.MAX_ROLES,
        description=(
            "roles of the job by name, 1 to 16, such as `pserver` and `trainer`. `kubectl scale` moves the elastic "
            "one (see replicas), `tj scale --role` any; their set is fixed while the job exists"
        ),
        json_schema_extra=rules.extension(*rules.ROLES),
    )
