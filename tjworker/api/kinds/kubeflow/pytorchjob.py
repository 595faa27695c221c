"""PyTorchJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field

from tjworker.api.kinds.base import CamelModel, Json
from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Dressed, Shape, Specs, with_environment
from tjworker.api.kinds.guests.spec import ReplicaSpec, are_fixed, replicas_of, role_rules
from tjworker.api.kinds.kubeflow.family import KUBEFLOW
from tjworker.api.kinds.kubeflow.spec import ElasticPolicy, KubeflowSpec, metrics_ignored
from tjworker.api.model import EndPolicy

ROLES = ("Master", "Worker")


class RendezvousSetting(CamelModel):
    """One of torchrun's --rdzv-conf."""

    key: str = Field("", description="its name")
    value: str = Field("", description="its value")


class PyTorchElasticPolicy(ElasticPolicy):
    """How torchrun's processes find each other, and how many they may be."""

    rdzv_backend: Literal["c10d", "etcd", "etcd-v2"] | None = Field(None, description="Default: c10d")
    rdzv_host: str | None = Field(None, description="host of the rendezvous. Default: the first pod")
    rdzv_port: int | None = Field(
        None, ge=1, le=65535, description="its port, where rdzvHost is set; the first pod's is that of its container"
    )
    rdzv_id: str | None = Field(None, description="name of the rendezvous. Default: one of this job alone")
    rdzv_conf: list[RendezvousSetting] | None = Field(None, max_length=64, description="further settings of it")
    standalone: bool | None = Field(None, description="each pod is a training of its own")
    n_proc_per_node: int | None = Field(None, ge=1, description="as spec.nprocPerNode, for older manifests")


class PyTorchJobSpec(KubeflowSpec):
    """What the job is to do."""

    elastic_policy: PyTorchElasticPolicy | None = Field(None, description="makes the workers elastic, with torchrun")
    pytorch_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Master and Worker",
        json_schema_extra=role_rules(ROLES, "PyTorchJob", lone=("Master",)),
    )
    nproc_per_node: str | None = Field(
        None, max_length=16, description="processes of each pod's torchrun: auto, cpu, gpu or a number. Default: auto"
    )


def _complete(spec: PyTorchJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
    if "Master" in specs:
        return {"Master": "All"}
    return {"Worker": "Any" if spec.elastic_policy is not None else "All"}


def _environment(spec: PyTorchJobSpec, uid: str) -> Mapping[str, str]:
    """torchrun takes each option from PET_<OPTION>; the rest is the framework's. Workers of a fixed number need no
    rendezvous, but where the job has one of its own: then the framework says nothing of it."""
    elastic = spec.elastic_policy
    deprecated = elastic.n_proc_per_node if elastic else None
    processes = str(spec.nproc_per_node or deprecated or "auto")
    found: dict[str, Any] = {"PET_NPROC_PER_NODE": processes}
    if elastic is None and processes.isdecimal():
        pods = sum(replicas_of(role) for role in spec.pytorch_replica_specs.values())
        found["WORLD_SIZE"] = pods * int(processes)
    if elastic is not None:
        found |= {"PET_MAX_RESTARTS": elastic.max_restarts, "PET_STANDALONE": "1" if elastic.standalone else None}
    if elastic is not None and _meets(spec, elastic):
        found |= {
            "PET_RDZV_BACKEND": elastic.rdzv_backend,
            "PET_RDZV_ID": elastic.rdzv_id,
            "PET_RDZV_CONF": ",".join(f"{one.key}={one.value}" for one in elastic.rdzv_conf or ()) or None,
        }
    if elastic is not None and elastic.rdzv_host:
        found |= {
            "PET_RDZV_BACKEND": elastic.rdzv_backend or "c10d",
            "PET_RDZV_ID": elastic.rdzv_id or uid or None,
            "PET_RDZV_ENDPOINT": f"{elastic.rdzv_host}:{elastic.rdzv_port or 29400}",
            # is_host, which the framework sets, is of the first pod.
            "PET_RDZV_CONF": found["PET_RDZV_CONF"] or "",
        }
    return {name: str(value) for name, value in found.items() if value is not None}


def _dress(of: Dressed, template: Json) -> Json:
    return with_environment(template, _environment(of.spec, of.uid))


def _meets(spec: PyTorchJobSpec, elastic: PyTorchElasticPolicy) -> bool:
    return bool(elastic.rdzv_host) or not are_fixed(elastic, spec.pytorch_replica_specs)


def _ignored(spec: PyTorchJobSpec) -> Iterator[str]:
    yield from metrics_ignored(spec.elastic_policy)
    elastic = spec.elastic_policy
    if elastic is not None and not _meets(spec, elastic):
        said = elastic.model_dump(by_alias=True, exclude_none=True)
        fields = sorted(name for name in said if name.startswith("rdzv"))
        yield from (f"spec.elasticPolicy.{name} (minReplicas is maxReplicas)" for name in fields)
    elif elastic is not None and elastic.rdzv_port is not None and not elastic.rdzv_host:
        yield "spec.elasticPolicy.rdzvPort (rdzvHost is not set: the first pod has the port of its container)"


SHAPE = Shape(
    family=KUBEFLOW,
    kind="PyTorchJob",
    plural="pytorchjobs",
    framework="pytorch",
    container="pytorch",
    specs_field="pytorchReplicaSpecs",
    roles=ROLES,
    spec_model=PyTorchJobSpec,
    specs=lambda spec: spec.pytorch_replica_specs,
    complete=_complete,
    default_restart="OnFailure",
    lone=("Master",),
    dress=_dress,
    elastic=lambda spec: spec.elastic_policy,
    ignored=_ignored,
)
JOB_KIND = job_kind(SHAPE, "A PyTorch job of Kubeflow: a master and workers, or elastic workers alone.")
