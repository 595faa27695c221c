"""PyTorchJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Dressed, Shape, Specs, with_environment
from tjworker.api.kinds.guests.spec import ReplicaSpec, replicas_of, role_rules
from tjworker.api.kinds.kubeflow.family import KUBEFLOW
from tjworker.api.kinds.kubeflow.spec import ElasticPolicy, KubeflowSpec, metrics_ignored
from tjworker.api.model import EndPolicy, Ignored, TrainingJob
from tjworker.base import Json

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
    rdzv_id: str | None = Field(None, description="name of the rendezvous. Default: unique for the job")
    rdzv_conf: list[RendezvousSetting] | None = Field(None, max_length=64, description="further settings of it")
    standalone: bool | None = Field(None, description="each pod trains by itself")
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
        None,
        max_length=16,
        description="processes of each pod's torchrun: auto, cpu, gpu or a number. Default: auto in a job with a"
        " Master, else torchrun's own default, 1",
    )


def _complete(spec: PyTorchJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
    if "Master" in specs:
        return {"Master": "All"}
    return {"Worker": "Any" if spec.elastic_policy is not None else "All"}


def _environment(spec: PyTorchJobSpec, uid: str) -> Mapping[str, str]:
    """What `elasticPolicy` and `nprocPerNode` say, as the variables PET_<OPTION> of torchrun's options. The others are
    the framework's. As training-operator 1.9 has them (`setPodEnv`, `ElasticEnvVarGenerator`): without a master and
    without a number in the spec, the number of processes is torchrun's own default, 1."""
    elastic, has_master = spec.elastic_policy, any(name.lower() == "master" for name in spec.pytorch_replica_specs)
    deprecated = elastic.n_proc_per_node if elastic else None
    default = "auto" if has_master else None
    found: dict[str, Any] = {"PET_NPROC_PER_NODE": spec.nproc_per_node or deprecated or default}
    processes = spec.nproc_per_node or ""
    if processes.isdecimal() and (elastic is None or has_master):
        pods = sum(replicas_of(role) for role in spec.pytorch_replica_specs.values())
        found["WORLD_SIZE"] = pods * int(processes)
    if elastic is not None:
        found |= {
            "PET_MAX_RESTARTS": elastic.max_restarts,
            "PET_STANDALONE": "1" if elastic.standalone else None,
            "PET_RDZV_BACKEND": elastic.rdzv_backend,
            "PET_RDZV_ID": elastic.rdzv_id,
            "PET_RDZV_CONF": ",".join(f"{one.key}={one.value}" for one in elastic.rdzv_conf or ()) or None,
        }
        if elastic.rdzv_host:
            found |= {
                "PET_RDZV_ID": elastic.rdzv_id or uid or None,
                "PET_RDZV_ENDPOINT": f"{elastic.rdzv_host}:{elastic.rdzv_port or 29400}",
                # is_host, which the framework sets, is of the first pod.
                "PET_RDZV_CONF": found["PET_RDZV_CONF"] or "",
            }
    return {name: str(value) for name, value in found.items() if value is not None}


def _dress(of: Dressed, template: Json) -> Json:
    return with_environment(template, _environment(of.spec, of.uid))


def _ignored(spec: PyTorchJobSpec) -> Iterator[Ignored]:
    yield from metrics_ignored(spec.elastic_policy)
    elastic = spec.elastic_policy
    if elastic is not None and elastic.rdzv_port is not None and not elastic.rdzv_host:
        why = "rdzvHost is not set: the first pod has the port of its container"
        yield Ignored("spec.elasticPolicy.rdzvPort", why)


def _finish(job: TrainingJob, spec: PyTorchJobSpec) -> TrainingJob:
    """The nodes of the rendezvous are the workers, whether there is a master or not (`generateEnvNNodes`)."""
    return job if spec.elastic_policy is None else replace(job, rendezvous=("Worker",))


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
    finish=_finish,
)
JOB_KIND = job_kind(SHAPE, "A PyTorch job of Kubeflow: a master and workers, or elastic workers alone.")
