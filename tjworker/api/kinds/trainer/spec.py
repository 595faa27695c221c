"""Fields of a TrainJob and of the runtimes, with the bounds and rules of Trainer 2.3 (pkg/apis/trainer/v1alpha1). The
checks of its webhooks are CEL rules here if CEL can express them, else checks in `trainjob`. Pure.

Containers of runtimes and patches are kept as written; the API server checks them when a pod is created.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tjworker.api.kinds.aitrainingjob.rules import MAX_REPLICAS
from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.spec import AsWritten
from tjworker.api.kinds.quantity import Quantity
from tjworker.api.kinds.runpolicy import MAX_INT32
from tjworker.api.kinds.trainer.patchspec import PatchMetadata, RuntimePatch, Variable, cel_rule
from tjworker.api.podtemplate import PodTemplate, map_by

GROUP, VERSION = "trainer.kubeflow.org", "v1alpha1"
STEP_LABEL = f"{GROUP}/trainjob-ancestor-step"
DATASET, MODEL, TRAINER = "dataset-initializer", "model-initializer", "trainer"
NODE, LAUNCHER = "node", "launcher"
CONTROLLER, MULTIKUEUE = f"{GROUP}/trainjob-controller", "kueue.x-k8s.io/multikueue"
URI = "^([a-zA-Z][a-zA-Z0-9+.-]*://.+)?$"
NAME_LENGTH = {
    "rule": "size(self.metadata.name) <= 63",
    "fieldPath": ".metadata.name",
    "message": "the name of a TrainJob must have at most 63 characters",
}
MAX_SLOTS = 1024
Word = Annotated[str, Field(max_length=1 << 20)]
"""Most characters of a command: Trainer's client sends whole programs in it."""


def _kept(name: str) -> Any:
    """A rule that the field cannot be changed, added or removed."""
    same = f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"
    return cel_rule(same, "field is immutable", f".{name}")


class RuntimeRef(CamelModel):
    """The runtime, which describes the pods of the job."""

    name: str = Field(min_length=1, max_length=253, description="name of the runtime")
    api_group: str = Field(GROUP, max_length=253, description="API group of the runtime")
    kind: str = Field(
        "ClusterTrainingRuntime",
        max_length=63,
        description="ClusterTrainingRuntime, or TrainingRuntime of the job's own namespace",
    )


class SecretRef(CamelModel):
    """A Secret of the job's namespace."""

    name: str = Field(min_length=1, max_length=253, description="name of the Secret")


class Source(CamelModel):
    """Data or a model that an initializer fetches."""

    storage_uri: str | None = Field(
        None, max_length=2048, pattern=URI, description="location, as the variable STORAGE_URI: `scheme://...`"
    )
    env: list[Variable] | None = Field(
        None,
        max_length=128,
        json_schema_extra=map_by("name"),
        description="further variables of the initializer's container",
    )
    secret_ref: SecretRef | None = Field(None, description="Secret whose entries are variables of the container")


class Initializer(CamelModel):
    """Data and model to fetch before the training, by steps of the runtime."""

    dataset: Source | None = Field(None, description="data, fetched by the step dataset-initializer")
    model: Source | None = Field(None, description="model, fetched by the step model-initializer")


class Resources(CamelModel):
    """Resources of one node, as in a container."""

    limits: dict[str, Quantity] | None = Field(None, max_length=64, description="limits by resource")
    requests: dict[str, Quantity] | None = Field(None, max_length=64, description="requests by resource")
    claims: list[AsWritten] | None = Field(None, max_length=64, description="resource claims, as in a container")


class Trainer(CamelModel):
    """Program and resources of the training nodes, which override the runtime's."""

    image: str | None = Field(None, max_length=500, description="image of the container `node`")
    command: list[Word] | None = Field(None, max_length=128, description="command of the container")
    args: list[Word] | None = Field(None, max_length=128, description="arguments of the command")
    env: list[Variable] | None = Field(
        None,
        max_length=128,
        json_schema_extra=map_by("name"),
        description="variables of the container, which override the runtime's of the same name",
    )
    num_nodes: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="number of training nodes (pods)")
    resources_per_node: Resources | None = Field(
        None, description="resources of each node, which override the runtime's"
    )
    num_proc_per_node: int | None = Field(None, ge=1, le=MAX_SLOTS, description="processes that each node starts")


_PATCHES_KEPT = (
    "has(self.runtimePatches) == has(oldSelf.runtimePatches)"
    " && (!has(self.runtimePatches) || self.runtimePatches == oldSelf.runtimePatches)"
)


class TrainJobSpec(CamelModel):
    """Specification of the job."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                *map(_kept, ("runtimeRef", "initializer", "trainer", "activeDeadlineSeconds", "managedBy")),
                cel_rule(
                    # Kueue admits a job in a single update, which sets suspend to false and adds the patches. So it is
                    # enough that the job is suspended before or after.
                    f"self.suspend || oldSelf.suspend || ({_PATCHES_KEPT})",
                    "runtimePatches can change only while the job is suspended: set suspend to true first",
                    ".runtimePatches",
                ),
            ]
        }
    )
    runtime_ref: RuntimeRef = Field(description="runtime of the job")
    initializer: Initializer | None = Field(None, description="data and model to fetch before the training")
    trainer: Trainer | None = Field(None, description="the training nodes")
    runtime_patches: list[RuntimePatch] | None = Field(
        None,
        # A list-map by manager: server-side apply lets Kueue and a user each own a patch.
        max_length=16,
        json_schema_extra=map_by("manager"),
        description="changes to the runtime for this job, applied in order",
    )
    suspend: bool = Field(False, description="true: the pods are deleted and the job waits. false: it continues")
    active_deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_INT32,
        description="seconds from the job's start, or from its last resume, after which it fails",
    )
    managed_by: Literal["trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue"] = Field(
        "trainer.kubeflow.org/trainjob-controller",
        description=f"{MULTIKUEUE}: MultiKueue manages the job, and the operator ignores it",
    )


# -- runtimes ----------------------------------------------------------------------------------------------------------


class Injection(CamelModel):
    """Further containers of a replicated job that get the variables of torchrun."""

    job_name: str = Field(min_length=1, max_length=63, description="name of the replicated job")
    container_names: list[str] = Field(default_factory=list, max_length=64, description="names of its containers")


class EnvInjection(CamelModel):
    """Further containers that get the variables of torchrun."""

    targets: list[Injection] = Field(default_factory=list, max_length=20, description="containers by replicated job")


class TorchPolicy(CamelModel):
    """PyTorch, started by torchrun."""

    env_injection: EnvInjection | None = Field(
        None, description="further containers that get the variables of torchrun"
    )


class MPIPolicy(CamelModel):
    """MPI, started by mpirun over ssh."""

    num_proc_per_node: int = Field(1, ge=1, le=MAX_SLOTS, description="processes of each node")
    mpi_implementation: Literal["OpenMPI"] = Field("OpenMPI", description="MPI implementation of mpirun")
    ssh_auth_mount_path: str = Field("/root/.ssh", max_length=1024, description="folder of the ssh keys")
    run_launcher_as_node: bool = Field(False, description="true: the launcher is also one of the training nodes")


class NoFields(CamelModel):
    """A framework without settings."""


class MLPolicy(CamelModel):
    """Number of training nodes, and their framework (at most one)."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule(
                    "[has(self.torch), has(self.mpi), has(self.jax), has(self.xgboost), has(self.flux)]"
                    ".filter(x, x).size() <= 1",
                    "Only one of the policy can be configured",
                )
            ]
        }
    )
    num_nodes: int = Field(1, ge=0, le=MAX_REPLICAS, description="training nodes of a job without numNodes")
    torch: TorchPolicy | None = Field(None, description="PyTorch, started by torchrun")
    mpi: MPIPolicy | None = Field(None, description="MPI, started by mpirun over ssh")
    jax: NoFields | None = Field(None, description="JAX")
    xgboost: NoFields | None = Field(None, description="XGBoost, whose node 0 runs the tracker")
    flux: AsWritten | None = Field(None, description="Flux. Not supported: jobs of such a runtime fail")


class Coscheduling(CamelModel):
    """The scheduler-plugins' gang."""

    # 60 is the default of Trainer's own API.
    schedule_timeout_seconds: int | None = Field(
        60, ge=0, le=MAX_INT32, description="how long pods that have found room wait for the others"
    )


class Volcano(CamelModel):
    """Volcano's gang."""

    network_topology: AsWritten | None = Field(None, description="as in Volcano's PodGroup; ignored")


class PodGroupPolicy(CamelModel):
    """The pods of a job start together. A setting of the operator chooses the gang scheduler."""

    coscheduling: Coscheduling | None = Field(None, description="the scheduler-plugins' gang")
    volcano: Volcano | None = Field(None, description="Volcano's gang")


class DependsOn(CamelModel):
    """A replicated job that must be ready or complete before the pods are created."""

    name: str = Field(min_length=1, max_length=63, description="name of an earlier replicated job in the list")
    status: Literal["Ready", "Complete"] = Field(description="Ready: its pods are ready. Complete: it has succeeded")


class JobSpec(CamelModel):
    """The child Job of a replicated job, as in batch/v1: the fields that have an effect."""

    # A runtime is Trainer's object, too: pruned fields would be missing when the cluster moves back to Trainer.
    model_config = ConfigDict(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
    parallelism: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="pods of a step that is no trainer")
    backoff_limit: int | None = Field(
        None, ge=0, le=MAX_INT32, description="number of failed pods that are replaced. Default: 6"
    )
    template: PodTemplate = Field(description="pod template of the child Job")


class JobTemplate(CamelModel):
    """The template of a replicated job's child Jobs."""

    metadata: PatchMetadata | None = Field(
        None, description=f"labels and annotations. The label {STEP_LABEL} names the step of the job"
    )
    spec: JobSpec = Field(description="child Job")


_STEP = f"self.template.metadata.labels['{STEP_LABEL}']"
_NO_STEP = (
    "!has(self.template.metadata) || !has(self.template.metadata.labels)"
    f" || !('{STEP_LABEL}' in self.template.metadata.labels)"
)
# Trainer's webhook has the same check. A CEL rule refuses the runtime before a job names it.
_WANTED = f"({_STEP} == '{TRAINER}' ? '{NODE}' : {_STEP})"


class ReplicatedJob(CamelModel):
    """A group of pods with the same template."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule(
                    f"{_NO_STEP} || !has(self.replicas) || self.replicas == 1",
                    "always must be 1: a step of a job has one child Job",
                    ".replicas",
                ),
                cel_rule(
                    f"{_NO_STEP} || !({_STEP} in ['{DATASET}', '{MODEL}', '{TRAINER}'])"
                    f" || self.template.spec.template.spec.containers.exists(c, c.name == {_WANTED})",
                    f"must have a container named `{NODE}` in the step {TRAINER}, and one of the step's name in an"
                    " initializer",
                    ".template.spec.template.spec.containers",
                ),
            ]
        }
    )
    name: str = Field(
        min_length=1, max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", description="name, part of pod names"
    )
    group_name: str | None = Field(None, max_length=63, description="JobSet's group, a label of the pods")
    replicas: int = Field(1, ge=1, le=64, description="number of child Jobs. A step of the job has 1")
    depends_on: list[DependsOn] | None = Field(
        None, max_length=10, description="replicated jobs that its pods wait for"
    )
    template: JobTemplate = Field(description="template of its child Jobs")


class SuccessPolicy(CamelModel):
    """When the job succeeds."""

    operator: Literal["All", "Any"] = Field("All", description="whether all or any of the replicated jobs must succeed")
    target_replicated_jobs: list[str] | None = Field(
        None, max_length=20, description="replicated jobs that count. Default: all"
    )


class FailurePolicy(CamelModel):
    """How often the whole job restarts after a replicated job has failed."""

    max_restarts: int = Field(0, ge=0, le=MAX_INT32, description="restarts of the whole job")
    rules: list[AsWritten] | None = Field(None, max_length=20, description="ignored; `tj describe` says so")
    restart_strategy: str | None = Field(
        None, max_length=63, description="ignored: pods are deleted before new pods are created"
    )


class Network(CamelModel):
    """Names of the pods in the network."""

    enable_dns_hostnames: bool | None = Field(
        None, alias="enableDNSHostnames", description="ignored: pods always have host names"
    )
    subdomain: str | None = Field(None, max_length=63, description="name of the headless service. Default: the job's")
    publish_not_ready_addresses: bool | None = Field(
        None, description="ignored: the service always includes pods that are not ready"
    )


class RetentionPolicy(CamelModel):
    """What happens to claims when their job is deleted."""

    when_deleted: Literal["Delete", "Retain"] = Field(
        "Delete", description="Delete: claims are deleted with the job. Retain: claims stay"
    )


class VolumeClaimPolicy(CamelModel):
    """PersistentVolumeClaims that are created for each job."""

    templates: list[AsWritten] = Field(
        max_length=50,
        description="templates of PersistentVolumeClaims. Each job has a claim `<name>-<job>`, and containers with a"
        " volumeMount of that name mount it",
    )
    retention_policy: RetentionPolicy | None = Field(
        None, description="whether claims are deleted with the job. Default: they are"
    )


class JobSetSpec(CamelModel):
    """The replicated jobs, as in a JobSet: the fields that have an effect."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
    replicated_jobs: list[ReplicatedJob] = Field(
        default_factory=list, max_length=20, json_schema_extra=map_by("name"), description="groups of pods"
    )
    network: Network | None = Field(None, description="names of the pods in the network")
    success_policy: SuccessPolicy | None = Field(
        None, description="when the job succeeds. Default: when all replicated jobs have succeeded"
    )
    failure_policy: FailurePolicy | None = Field(None, description="how often the whole job restarts. Default: never")
    startup_policy: AsWritten | None = Field(
        None, description="startupPolicyOrder InOrder: start one replicated job after another"
    )
    volume_claim_policies: list[VolumeClaimPolicy] | None = Field(
        None, max_length=50, description="PersistentVolumeClaims that are created for each job"
    )
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="seconds from the end of the job to the deletion of its pods; the TrainJob stays",
    )


class RuntimeTemplate(CamelModel):
    """Template of the jobs' JobSets."""

    metadata: PatchMetadata | None = Field(
        None, description="labels and annotations of Trainer's JobSet; here only the PodGroup gets them"
    )
    spec: JobSetSpec = Field(description="the replicated jobs")


class RuntimeSpec(CamelModel):
    """Specification of the jobs of this runtime."""

    ml_policy: MLPolicy | None = Field(None, description="number of training nodes, and their framework")
    pod_group_policy: PodGroupPolicy | None = Field(
        None,
        description="makes the pods of a job start together",
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule("!(has(self.coscheduling) && has(self.volcano))", "Only one of the policy can be configured")
            ]
        },
    )
    template: RuntimeTemplate = Field(description="template of the jobs' JobSets")


def json_of(model: CamelModel | None) -> dict[str, Any]:
    """The fields that are set, as JSON."""
    return {} if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)
