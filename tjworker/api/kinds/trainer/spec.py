"""Fields of a TrainJob and of the runtimes, with the bounds and rules of Trainer 2.3 (pkg/apis/trainer/v1alpha1). What
its webhooks refuse is a CEL rule here where CEL can say it, else `trainjob` refuses it. Pure.

Containers of runtimes and patches are kept as written; the API server judges them when a pod is made.
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
"""Of a command: the client of Trainer sends whole programs in one."""


def _kept(name: str) -> Any:
    """The field cannot be changed, added or removed."""
    same = f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || self.{name} == oldSelf.{name})"
    return cel_rule(same, "field is immutable", f".{name}")


class RuntimeRef(CamelModel):
    """The runtime that says what the pods of the job are."""

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
    """What an initializer fetches."""

    storage_uri: str | None = Field(
        None, max_length=2048, pattern=URI, description="where it is, as the variable STORAGE_URI: `scheme://...`"
    )
    env: list[Variable] | None = Field(
        None,
        max_length=128,
        json_schema_extra=map_by("name"),
        description="more variables of the initializer's container",
    )
    secret_ref: SecretRef | None = Field(None, description="Secret whose entries are variables of the container")


class Initializer(CamelModel):
    """What is fetched before the training begins, by steps that the runtime has."""

    dataset: Source | None = Field(None, description="data, fetched by the step dataset-initializer")
    model: Source | None = Field(None, description="model, fetched by the step model-initializer")


class Resources(CamelModel):
    """Resources of one node, as in a container."""

    limits: dict[str, Quantity] | None = Field(None, max_length=64, description="limits by resource")
    requests: dict[str, Quantity] | None = Field(None, max_length=64, description="requests by resource")
    claims: list[AsWritten] | None = Field(None, max_length=64, description="as in a container")


class Trainer(CamelModel):
    """What the training nodes run, in the place of what the runtime says."""

    image: str | None = Field(None, max_length=500, description="image of the container `node`")
    command: list[Word] | None = Field(None, max_length=128, description="its command")
    args: list[Word] | None = Field(None, max_length=128, description="its arguments")
    env: list[Variable] | None = Field(
        None,
        max_length=128,
        json_schema_extra=map_by("name"),
        description="its variables, which override the runtime's of the same name",
    )
    num_nodes: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="how many training nodes (pods)")
    resources_per_node: Resources | None = Field(
        None, description="resources of each node, which override the runtime's"
    )
    num_proc_per_node: int | None = Field(None, ge=1, le=MAX_SLOTS, description="processes that each node starts")


_PATCHES_KEPT = (
    "has(self.runtimePatches) == has(oldSelf.runtimePatches)"
    " && (!has(self.runtimePatches) || self.runtimePatches == oldSelf.runtimePatches)"
)


class TrainJobSpec(CamelModel):
    """What the job is to do."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                *map(_kept, ("runtimeRef", "initializer", "trainer", "activeDeadlineSeconds", "managedBy")),
                cel_rule(
                    # Kueue admits a job in a single update, which sets suspend to false and adds the patches. So a
                    # suspended state before or after is enough.
                    f"self.suspend || oldSelf.suspend || ({_PATCHES_KEPT})",
                    "runtimePatches can change only while the job is suspended: set suspend to true first",
                    ".runtimePatches",
                ),
            ]
        }
    )
    runtime_ref: RuntimeRef = Field(description="the runtime of the job")
    initializer: Initializer | None = Field(None, description="what is fetched before the training begins")
    trainer: Trainer | None = Field(None, description="the training nodes")
    runtime_patches: list[RuntimePatch] | None = Field(
        None,
        # A list-map by manager: server-side apply lets Kueue and a user each own a patch.
        max_length=16,
        json_schema_extra=map_by("manager"),
        description="changes of the runtime for this job, in this order",
    )
    suspend: bool = Field(False, description="true: the pods are deleted and the job waits. false: it continues")
    active_deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=MAX_INT32,
        description="seconds after which the job fails, from its start or from its last resume",
    )
    managed_by: Literal["trainer.kubeflow.org/trainjob-controller", "kueue.x-k8s.io/multikueue"] = Field(
        "trainer.kubeflow.org/trainjob-controller",
        description=f"{MULTIKUEUE}: MultiKueue manages the job, and the operator ignores it",
    )


# -- runtimes ----------------------------------------------------------------------------------------------------------


class Injection(CamelModel):
    """Containers of a replicated job that get the variables of torchrun, too."""

    job_name: str = Field(min_length=1, max_length=63, description="name of the replicated job")
    container_names: list[str] = Field(default_factory=list, max_length=64, description="names of its containers")


class EnvInjection(CamelModel):
    """Where else the variables of torchrun go."""

    targets: list[Injection] = Field(default_factory=list, max_length=20, description="containers by replicated job")


class TorchPolicy(CamelModel):
    """PyTorch, started by torchrun."""

    env_injection: EnvInjection | None = Field(None, description="where else the variables of torchrun go")


class MPIPolicy(CamelModel):
    """MPI, started by mpirun over ssh."""

    num_proc_per_node: int = Field(1, ge=1, le=MAX_SLOTS, description="processes of each node")
    mpi_implementation: Literal["OpenMPI"] = Field("OpenMPI", description="whose mpirun it is")
    ssh_auth_mount_path: str = Field("/root/.ssh", max_length=1024, description="folder of the ssh keys")
    run_launcher_as_node: bool = Field(False, description="the launcher trains, too, as one of the nodes")


class NoFields(CamelModel):
    """A framework without settings."""


class MLPolicy(CamelModel):
    """How many nodes train, and how their framework is started: at most one of the frameworks."""

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
    num_nodes: int = Field(1, ge=0, le=MAX_REPLICAS, description="training nodes of a job that does not say how many")
    torch: TorchPolicy | None = Field(None, description="PyTorch, started by torchrun")
    mpi: MPIPolicy | None = Field(None, description="MPI, started by mpirun over ssh")
    jax: NoFields | None = Field(None, description="JAX")
    xgboost: NoFields | None = Field(None, description="XGBoost, whose node 0 runs the tracker")
    flux: AsWritten | None = Field(None, description="Flux. Jobs of such a runtime fail here")


class Coscheduling(CamelModel):
    """The scheduler-plugins' gang."""

    # 60 is the default of Trainer's own API.
    schedule_timeout_seconds: int | None = Field(
        60, ge=0, le=MAX_INT32, description="for so long pods that have found room wait for the others"
    )


class Volcano(CamelModel):
    """Volcano's gang."""

    network_topology: AsWritten | None = Field(None, description="as in Volcano's PodGroup; not acted on")


class PodGroupPolicy(CamelModel):
    """That the pods of a job start together; which gang scheduler does it is a setting of the operator."""

    coscheduling: Coscheduling | None = Field(None, description="the scheduler-plugins' gang")
    volcano: Volcano | None = Field(None, description="Volcano's gang")


class DependsOn(CamelModel):
    """What a replicated job waits for before its pods are made."""

    name: str = Field(min_length=1, max_length=63, description="name of another replicated job, further up")
    status: Literal["Ready", "Complete"] = Field(description="Ready: its pods are ready. Complete: it has succeeded")


class JobSpec(CamelModel):
    """The child Job of a replicated job, as in batch/v1: the fields that count here."""

    # A runtime is Trainer's object, too: pruned fields would be missing when the cluster moves back to Trainer.
    model_config = ConfigDict(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
    parallelism: int | None = Field(None, ge=0, le=MAX_REPLICAS, description="pods of a step that is no trainer")
    backoff_limit: int | None = Field(None, ge=0, le=MAX_INT32, description="failures that are made up for. Default: 6")
    template: PodTemplate = Field(description="its pods")


class JobTemplate(CamelModel):
    """The template of a replicated job's child Jobs."""

    metadata: PatchMetadata | None = Field(
        None, description=f"labels and annotations. The label {STEP_LABEL} says which step of the job this is"
    )
    spec: JobSpec = Field(description="the child Job")


_STEP = f"self.template.metadata.labels['{STEP_LABEL}']"
_NO_STEP = (
    "!has(self.template.metadata) || !has(self.template.metadata.labels)"
    f" || !('{STEP_LABEL}' in self.template.metadata.labels)"
)
# Trainer's webhook checks the same. Without a webhook, a rule of the CRD refuses the runtime before a job names it.
_WANTED = f"({_STEP} == '{TRAINER}' ? '{NODE}' : {_STEP})"


class ReplicatedJob(CamelModel):
    """A group of pods of one template."""

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
    replicas: int = Field(1, ge=1, le=64, description="child Jobs. Of a step: 1")
    depends_on: list[DependsOn] | None = Field(None, max_length=10, description="what its pods wait for")
    template: JobTemplate = Field(description="its child Jobs")


class SuccessPolicy(CamelModel):
    """When the job has succeeded."""

    operator: Literal["All", "Any"] = Field("All", description="of the replicated jobs below, all or any must succeed")
    target_replicated_jobs: list[str] | None = Field(
        None, max_length=20, description="replicated jobs that count. Default: all"
    )


class FailurePolicy(CamelModel):
    """How often the whole job begins anew when a replicated job has failed."""

    max_restarts: int = Field(0, ge=0, le=MAX_INT32, description="restarts of the whole job")
    rules: list[AsWritten] | None = Field(None, max_length=20, description="not acted on; `tj describe` says so")
    restart_strategy: str | None = Field(None, max_length=63, description="not acted on: the pods go before new come")


class Network(CamelModel):
    """How pods find each other."""

    enable_dns_hostnames: bool | None = Field(
        None, alias="enableDNSHostnames", description="pods always have host names here"
    )
    subdomain: str | None = Field(None, max_length=63, description="name of the headless service. Default: the job's")
    publish_not_ready_addresses: bool | None = Field(None, description="pods are always found before they are ready")


class RetentionPolicy(CamelModel):
    """What becomes of claims when their job is deleted."""

    when_deleted: Literal["Delete", "Retain"] = Field(
        "Delete", description="Delete: they go with it. Retain: they stay"
    )


class VolumeClaimPolicy(CamelModel):
    """PersistentVolumeClaims that each job has of its own."""

    templates: list[AsWritten] = Field(
        max_length=50,
        description="claims as Kubernetes has them. A job makes `<name>-<job>` of each, and containers with a"
        " volumeMount of that name get it",
    )
    retention_policy: RetentionPolicy | None = Field(
        None, description="what becomes of them when the job is deleted. Default: they go with it"
    )


class JobSetSpec(CamelModel):
    """The replicated jobs, in JobSet's words: the fields that count here."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})
    replicated_jobs: list[ReplicatedJob] = Field(
        default_factory=list, max_length=20, json_schema_extra=map_by("name"), description="groups of pods"
    )
    network: Network | None = Field(None, description="how pods find each other")
    success_policy: SuccessPolicy | None = Field(None, description="when the job has succeeded. Default: all have")
    failure_policy: FailurePolicy | None = Field(
        None, description="how often the whole job begins anew. Default: never"
    )
    startup_policy: AsWritten | None = Field(None, description="startupPolicyOrder: InOrder starts one after another")
    volume_claim_policies: list[VolumeClaimPolicy] | None = Field(
        None, max_length=50, description="PersistentVolumeClaims that are made for each job"
    )
    ttl_seconds_after_finished: int | None = Field(
        None, ge=0, le=MAX_INT32, description="seconds after the end when the pods go; the TrainJob stays"
    )


class RuntimeTemplate(CamelModel):
    """What jobs are made of."""

    metadata: PatchMetadata | None = Field(
        None, description="labels and annotations of Trainer's JobSet; here they reach the PodGroup alone"
    )
    spec: JobSetSpec = Field(description="the replicated jobs")


class RuntimeSpec(CamelModel):
    """How jobs of this runtime are run."""

    ml_policy: MLPolicy | None = Field(None, description="how many nodes train, and how their framework is started")
    pod_group_policy: PodGroupPolicy | None = Field(
        None,
        description="that the pods of a job start together",
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule("!(has(self.coscheduling) && has(self.volcano))", "Only one of the policy can be configured")
            ]
        },
    )
    template: RuntimeTemplate = Field(description="what jobs are made of")


def json_of(model: CamelModel | None) -> dict[str, Any]:
    """What is set, as JSON."""
    return {} if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)
