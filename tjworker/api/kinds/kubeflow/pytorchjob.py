"""PyTorchJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

from pydantic import Field

from tjworker.api.ignored import Ignored
from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.kind import Restart, Specs
from tjworker.api.kinds.guests.spec import ReplicaSpec, replicas_of, role_rules
from tjworker.api.kinds.kubeflow.family import KubeflowKind
from tjworker.api.kinds.kubeflow.spec import ElasticPolicy, KubeflowSpec, metrics_ignored
from tjworker.api.model import EndPolicy, TrainingJob
from tjworker.api.torchrun import TorchOptions, TorchSettings

ROLES = ("Master", "Worker")


class RendezvousSetting(CamelModel):
    """A setting of torchrun's --rdzv-conf."""

    key: str = Field("", description="name of the setting")
    value: str = Field("", description="value of the setting")


class PyTorchElasticPolicy(ElasticPolicy):
    """Rendezvous of torchrun's processes, and bounds of their number."""

    rdzv_backend: Literal["c10d", "etcd", "etcd-v2"] | None = Field(None, description="Default: c10d")
    rdzv_host: str | None = Field(None, description="host of the rendezvous. Default: the first pod")
    rdzv_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of rdzvHost; without rdzvHost it is the port of the first pod's container",
    )
    rdzv_id: str | None = Field(None, description="name of the rendezvous. Default: unique for the job")
    rdzv_conf: list[RendezvousSetting] | None = Field(
        None, max_length=64, description="further settings of the rendezvous"
    )
    standalone: bool | None = Field(None, description="each pod trains by itself")
    n_proc_per_node: int | None = Field(None, ge=1, description="same as spec.nprocPerNode, for older manifests")


class PyTorchJobSpec(KubeflowSpec):
    """Specification of the job."""

    elastic_policy: PyTorchElasticPolicy | None = Field(None, description="makes the workers elastic, with torchrun")
    pytorch_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Master and Worker",
        json_schema_extra=role_rules(ROLES, "PyTorchJob", lone=("Master",)),
    )
    nproc_per_node: str | None = Field(
        None,
        max_length=16,
        description="processes of each pod's torchrun: auto, cpu, gpu or a number. Default: auto in a job with a"
        " Master, else torchrun's own default, 1",
    )


class PyTorchJob(KubeflowKind[PyTorchJobSpec]):
    kind = "PyTorchJob"
    plural = "pytorchjobs"
    description = "A PyTorch job of Kubeflow: a master and workers, or elastic workers alone."
    spec_model = PyTorchJobSpec
    roles_field = "pytorchReplicaSpecs"
    roles = ROLES
    lone = ("Master",)
    framework = "pytorch"
    container = "pytorch"

    def replica_specs(self, spec: PyTorchJobSpec) -> Specs:
        return spec.pytorch_replica_specs

    def complete_policies(self, spec: PyTorchJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        if "Master" in specs:
            return {"Master": "All"}
        # The agents of torchrun leave a rendezvous together, so training-operator takes the first success for the end.
        return {"Worker": "Any" if spec.elastic_policy is not None else "All"}

    def default_restart(self, spec: PyTorchJobSpec, role: str) -> Restart:
        return "OnFailure"

    def elastic_policy(self, spec: PyTorchJobSpec) -> PyTorchElasticPolicy | None:
        return spec.elastic_policy

    def ignored(self, spec: PyTorchJobSpec) -> Iterator[Ignored]:
        yield from metrics_ignored(spec.elastic_policy)
        elastic = spec.elastic_policy
        if elastic is not None and elastic.rdzv_port is not None and not elastic.rdzv_host:
            why = "rdzvHost is not set: the first pod has the port of its container"
            yield Ignored("spec.elasticPolicy.rdzvPort", why)

    def finish(self, job: TrainingJob, spec: PyTorchJobSpec) -> TrainingJob:
        # The nodes of the rendezvous are the workers, whether there is a master or not (`generateEnvNNodes`).
        nodes = () if spec.elastic_policy is None else ("Worker",)
        return replace(job, torch=_torch(job, spec), rendezvous=nodes)


def _torch(job: TrainingJob, spec: PyTorchJobSpec) -> TorchSettings:
    """Follows training-operator 1.9 (`setPodEnv`, `ElasticEnvVarGenerator`). If the job has no master and the spec has
    no number of processes, torchrun's default applies, which is 1."""
    elastic, has_master = spec.elastic_policy, any(role.name == "Master" for role in job.roles)
    deprecated = str(elastic.n_proc_per_node) if elastic and elastic.n_proc_per_node else None
    default = "auto" if has_master else None
    # As in training-operator, the field of the spec wins over its deprecated form in the elasticPolicy.
    processes = spec.nproc_per_node or deprecated or default
    return TorchSettings(
        _options(elastic, processes, job.uid) if elastic is not None else TorchOptions(nproc_per_node=processes),
        _world_size(spec) if elastic is None or has_master else None,
    )


def _options(elastic: PyTorchElasticPolicy, processes: str | None, uid: str) -> TorchOptions:
    host = elastic.rdzv_host
    return TorchOptions(
        nproc_per_node=processes,
        max_restarts=None if elastic.max_restarts is None else str(elastic.max_restarts),
        standalone="1" if elastic.standalone else None,
        rdzv_backend=elastic.rdzv_backend,
        # 29400 is torchrun's own default for an endpoint without a port.
        rdzv_endpoint=f"{host}:{elastic.rdzv_port or 29400}" if host else None,
        # A host outside of the job may serve several jobs; the UID keeps their nodes apart.
        rdzv_id=(elastic.rdzv_id or uid or None) if host else elastic.rdzv_id,
        rdzv_conf=",".join(f"{one.key}={one.value}" for one in elastic.rdzv_conf or ()) or None,
    )


def _world_size(spec: PyTorchJobSpec) -> int | None:
    processes = spec.nproc_per_node or ""
    pods = sum(replicas_of(role) for role in spec.pytorch_replica_specs.values())
    # The numbers behind `auto`, `cpu` and `gpu` are known only inside of a pod.
    return pods * int(processes) if processes.isdecimal() else None


JOB_KIND = PyTorchJob()
