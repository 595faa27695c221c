"""The spec of a TrainingJob (paddlepaddle.org) as pydantic models: all fields of PaddlePaddle EDL's manifests.

The CRD's schema and the reference are generated from them. Pure. The names are those of the manifests, including snake
case and `min-instance`. The API server and the parser apply the same bounds.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from tjworker.api.kinds.quantity import Quantity
from tjworker.api.kinds.runpolicy import RunPolicy
from tjworker.api.kinds.trainingjob import rules
from tjworker.api.podtemplate import DNS_LABEL, LABEL_VALUE, PRESERVE, map_by

MAX_REPLICAS = 10_000
MAX_PORTS = 256
MAX_INT32 = 2**31 - 1
MAX_LIST = 64
DEFAULT_IMAGE = "paddlepaddle/paddlecloud-job"
DEFAULT_PORT = 7164

FrameworkType = Literal["local", "nccl2", "multi"]

# Declared, because kubectl's strict validation refuses a manifest with an unknown field.
Inert = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
"""A field without effect. Any value is accepted."""


def _inert(alias: str) -> Any:
    return Field(None, alias=alias, description="accepted without effect: manifests of the EDL operator have it")


EnvValue = Annotated[str, Field(max_length=32_768)]
Words = Annotated[str, Field(max_length=4096)]


def _or_default(default: int | str) -> AfterValidator:
    """Replace a zero value, which Go's clients write for a missing field."""
    return AfterValidator(lambda value: value or default)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", populate_by_name=True)


# The CRD does not repeat Pod's schema: a pod field of a newer Kubernetes would be pruned from the job without a word
# (ADR 6).
class _Free(_Model):
    """A type of a pod's fields. The API server checks its fields when a pod is created."""

    model_config = ConfigDict(json_schema_extra=PRESERVE)


class Resources(_Model):
    """Requests and limits of a container, as in a Pod."""

    limits: dict[str, Quantity] | None = Field(None, max_length=MAX_LIST, description="limits by resource")
    requests: dict[str, Quantity] | None = Field(
        None, max_length=MAX_LIST, description="requests by resource; default: the limits"
    )


class SecretReference(_Model):
    """A Secret in the job's namespace."""

    name: str = Field(min_length=1, max_length=253, description="name of the Secret")


class Toleration(_Free):
    """A toleration, as in a Pod."""


class Probe(_Free):
    """A probe, as in a Pod's container."""


class PodSecurityContext(_Free):
    """Security context of a pod, as in a Pod."""


class SecurityContext(_Free):
    """Security context of a container, as in a Pod's container."""


class Volume(_Free):
    """A volume, as in a Pod."""

    name: str = Field(
        min_length=1, max_length=63, pattern=DNS_LABEL, description="name of the volume, unique in the job"
    )


class VolumeMount(_Free):
    """A volume mount, as in a Pod's container."""

    name: str = Field(min_length=1, max_length=63, description="name of one of spec.volumes")
    mountPath: str = Field(min_length=1, max_length=4096, description="path in the container")  # noqa: N815


class Component(_Model):
    """One role of the job: program, resources and placement of its pods."""

    etcd_endpoint: Inert = _inert("etcd-endpoint")
    index_succeed: Inert = _inert("index_succeed")
    replica_spec: Inert = _inert("replicaSpec")

    entrypoint: str | None = Field(
        None,
        max_length=rules.MAX_WORDS,
        description=(
            "command of the role's container, split into words as a shell splits them (quotes and backslashes; "
            "nothing is expanded but $(NAME), by Kubernetes). Default: the role's `paddle_k8s` command"
        ),
        json_schema_extra=rules.extension(rules.WORDS_CLOSE),
    )
    workspace: str | None = Field(
        None,
        max_length=4096,
        description="directory of the training program: the variable TRAINER_PACKAGE. Default: the trainer's",
    )
    resources: Resources = Field(default_factory=Resources, description="resources of a pod of the role")
    envs: dict[str, EnvValue] = Field(
        default_factory=dict,
        max_length=1024,
        description="environment variables. They override the operator's variables of the same name",
    )
    image_pull_secrets: list[SecretReference] = Field(
        default_factory=list,
        alias="imagePullSecrets",
        max_length=MAX_LIST,
        description="Secrets for pulling the image. Default: the trainer's",
    )
    grace_period_seconds: int | None = Field(
        None, ge=0, le=MAX_INT32, description="seconds between SIGTERM and SIGKILL; default: 30"
    )
    pre_stop_cmd: list[Words] = Field(
        default_factory=list,
        max_length=MAX_LIST,
        description="command that runs in the container before SIGTERM (lifecycle.preStop)",
    )
    tolerations: list[Toleration] = Field(
        default_factory=list, max_length=MAX_LIST, description="tolerations of the role's pods, as in a Pod"
    )
    node_selector: dict[str, Annotated[str, Field(max_length=63)]] = Field(
        default_factory=dict, max_length=MAX_LIST, description="node labels that the role's pods require"
    )
    liveness_probe: Probe | None = Field(None, description="liveness probe of the container, as in a Pod")
    readiness_probe: Probe | None = Field(None, description="readiness probe of the container, as in a Pod")


class Master(Component):
    """The master, which hands out tasks to the trainers: one pod with an etcd container, if the job is
    fault_tolerant."""

    min_instance: int = Field(1, alias="min-instance", ge=0, le=1, description="a job has one master")
    max_instance: int = Field(1, alias="max-instance", ge=0, le=1, description="a job has one master")


class Pserver(Component):
    """The parameter servers, a ReplicaSet. Jobs with local_job or is_nccl have none."""

    model_config = ConfigDict(json_schema_extra=rules.extension(rules.BOUNDS))

    min_instance: int = Field(
        1, alias="min-instance", ge=0, le=MAX_REPLICAS, description="number of parameter servers, 0 to 10000"
    )
    max_instance: Annotated[int | None, AfterValidator(lambda most: most or None)] = Field(
        None,
        alias="max-instance",
        ge=0,
        le=MAX_REPLICAS,
        description="at least min-instance; no effect, because parameter servers are not scaled",
    )


class Trainer(Component):
    """The trainers, a batch Job. In an elastic job their number is between min-instance and max-instance."""

    model_config = ConfigDict(json_schema_extra=rules.extension(rules.BOUNDS))

    min_instance: int = Field(
        1,
        alias="min-instance",
        # At least 1: only trainers end a job, so a job without trainers would run for ever.
        ge=1,
        le=MAX_REPLICAS,
        description=("the fewest trainers, and their number at the start, 1 to 10000. `kubectl scale` changes it"),
    )
    max_instance: Annotated[int | None, AfterValidator(lambda most: most or None)] = Field(
        None,
        alias="max-instance",
        ge=0,
        le=MAX_REPLICAS,
        description=(
            "the most trainers. If it is above min-instance, the job is elastic and needs fault_tolerant. "
            "Default, and 0: min-instance"
        ),
    )
    passes: int | None = Field(None, ge=0, le=MAX_INT32, description="overrides spec.passes; 0: spec.passes")


class Annotations(_Model):
    """Information of a platform about the job."""

    usergroupid: str | None = Field(None, max_length=253, description="annotation `usergroupid` of the pods")
    userid: str | None = Field(None, max_length=253, description="annotation `userid` of the pods")
    priority: str | None = Field(None, max_length=63, pattern=LABEL_VALUE, description="label `priority` of the pods")
    scheduler: str | None = Field(None, max_length=253, description="scheduler of the pods; overrides schedulerName")
    walltime: int | None = Field(
        None,
        ge=0,
        le=MAX_INT32,
        description="seconds from when the job first ran to its end in the phase Timeout; default: no limit",
    )


class FrameworkSpec(_Model):
    """The framework, and how its pods work together. Its type overrides local_job and is_nccl."""

    name: str | None = Field(None, max_length=63, description="name of the framework, such as paddle; informational")
    type: FrameworkType = Field(
        description=(
            "`local`: one trainer alone; `nccl2`: trainers that reduce among themselves; `multi`: trainers and "
            "parameter servers"
        )
    )


class TrainingJobSpec(_Model):
    """Specification of the job."""

    model_config = ConfigDict(json_schema_extra=rules.extension(*rules.SPEC))

    image: Annotated[str, _or_default(DEFAULT_IMAGE)] = Field(
        DEFAULT_IMAGE,
        max_length=1024,
        description='image of the containers master, pserver and trainer; "" is the default',
    )
    host_network: bool = Field(False, description="the pods use the network of their nodes")
    port: Annotated[int, _or_default(DEFAULT_PORT)] = Field(
        DEFAULT_PORT,
        ge=0,
        le=65_535,
        description="first port of a parameter server (of a trainer, with is_nccl); 0 is the default",
    )
    ports_num: Annotated[int, _or_default(1)] = Field(
        1, ge=0, le=MAX_PORTS, description="ports for dense parameters, from `port` on; 0 is the default"
    )
    ports_num_for_sparse: Annotated[int, _or_default(1)] = Field(
        1, ge=0, le=MAX_PORTS, description="ports for sparse parameters, after those; 0 is the default"
    )
    trainer_port: int | None = Field(
        None, ge=0, le=65_535, description="first port of a trainer; default: trainers have none"
    )
    trainer_ports_num: int | None = Field(
        None, ge=0, le=MAX_PORTS, description="ports of a trainer, from trainer_port on"
    )
    fault_tolerant: bool = Field(
        False, description="the job continues when trainers fail or their number changes: a master hands out the work"
    )
    local_job: bool = Field(False, description="one trainer alone, without parameter servers")
    is_nccl: bool = Field(False, description="trainers reduce among themselves, without parameter servers")
    frame_work: FrameworkSpec | None = Field(None, description="the framework, and how its pods work together")
    passes: Annotated[int, _or_default(1)] = Field(
        1, ge=0, le=MAX_INT32, description="passes over the data: the variable PADDLE_INIT_NUM_PASSES; 0 is the default"
    )
    volumes: list[Volume] = Field(
        default_factory=list,
        max_length=MAX_LIST,
        json_schema_extra=map_by("name"),
        description="volumes of the pods of every role, as in a Pod",
    )
    volume_mounts: list[VolumeMount] = Field(
        default_factory=list,
        alias="VolumeMounts",
        max_length=MAX_LIST,
        json_schema_extra=map_by("mountPath"),
        description="mounts of the containers master, pserver and trainer, as in a Pod",
    )
    annotations: Annotations = Field(default_factory=Annotations, description="information of a platform about the job")
    scheduler_name: str | None = Field(
        None, alias="schedulerName", max_length=253, description="scheduler of the pods; default: the cluster's"
    )
    pod_group_name: str | None = Field(
        None,
        alias="podGroupName",
        max_length=253,
        description=(
            "PodGroup that the pods belong to (annotation scheduling.k8s.io/group-name, as kube-batch reads it)"
        ),
    )
    mount_path: str | None = Field(
        None,
        alias="mountPath",
        max_length=4096,
        description=(
            "path where each container mounts the first volume that VolumeMounts does not name; an emptyDir "
            "when there is none"
        ),
    )
    suspend: bool = Field(
        False,
        description=(
            "true: the pods are deleted, the job waits and its time limits stop. false: it continues. "
            "PaddlePaddle EDL has"
            " no such field"
        ),
    )
    run_policy: RunPolicy | None = Field(
        None,
        alias="runPolicy",
        description=(
            "policies for the whole job, as in the KubeDL job API; PaddlePaddle EDL has no such field. A restart "
            "is a trainer that failed and was replaced"
        ),
    )
    pod_security_context: PodSecurityContext | None = Field(
        None,
        alias="podSecurityContext",
        description="securityContext of the pods of every role, as in a Pod; PaddlePaddle EDL has no such field",
    )
    security_context: SecurityContext | None = Field(
        None,
        alias="securityContext",
        description=(
            "securityContext of all their containers, including the master's etcd; PaddlePaddle EDL has no such field"
        ),
    )
    mountpath: Inert = _inert("mountpath")
    nfsmount: Inert = _inert("nfsmount")
    matrix: Inert = _inert("matrix")
    master: Master = Field(default_factory=Master, description="the master; only in a job that is fault_tolerant")
    pserver: Pserver = Field(default_factory=Pserver, description="the parameter servers")
    trainer: Trainer = Field(description="the trainers")

    @property
    def mode(self) -> FrameworkType:
        """How the pods work together. `frame_work` overrides the other fields, as in PaddlePaddle EDL."""
        if self.frame_work is not None:
            return self.frame_work.type
        return "local" if self.local_job else "nccl2" if self.is_nccl else "multi"
