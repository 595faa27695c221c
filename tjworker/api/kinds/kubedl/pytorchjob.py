"""PyTorchJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Dressed, Shape, with_environment
from tjworker.api.kinds.guests.spec import ElasticBounds, role_rules
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy, ModelFields
from tjworker.api.model import Ignored, TrainingJob
from tjworker.base import Json

ROLES = ("Master", "Worker")


class PyTorchElasticPolicy(ElasticBounds):
    """How torchrun's processes find each other, and how many they may be."""

    rdzv_backend: str | None = Field(None, description="such as etcd or c10d. Default: c10d")
    rdzv_endpoint: str | None = Field(None, description="host:port of the rendezvous. Default: the first pod")
    n_proc_per_node: int | None = Field(None, ge=1, description="processes of each pod. Default: 1")


class PyTorchJobSpec(ModelFields, KubeDLRunPolicy):
    """What the job is to do."""

    enable_elastic: bool | None = Field(None, description="true: elasticPolicy counts")
    elastic_policy: PyTorchElasticPolicy | None = Field(None, description="makes the workers elastic, with torchrun")
    pytorch_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Master and Worker",
        json_schema_extra=role_rules(ROLES, "PyTorchJob", lone=("Master",), needed=("Master",)),
    )


def _environment(spec: PyTorchJobSpec, uid: str) -> Mapping[str, str]:
    """What `elasticPolicy` says, as the variables PET_<OPTION> of torchrun. The framework sets the others."""
    elastic = spec.elastic_policy
    if elastic is None or not spec.enable_elastic:
        return {}
    found = {"PET_NPROC_PER_NODE": str(elastic.n_proc_per_node or 1)}
    if elastic.rdzv_backend:
        found["PET_RDZV_BACKEND"] = elastic.rdzv_backend
    if elastic.rdzv_endpoint:
        found |= {
            "PET_RDZV_ENDPOINT": elastic.rdzv_endpoint,
            # is_host, which the framework sets, is of the first pod.
            "PET_RDZV_CONF": "",
            **({"PET_RDZV_ID": uid} if uid else {}),
        }
    return found


def _dress(of: Dressed, template: Json) -> Json:
    return with_environment(template, _environment(of.spec, of.uid))


def _ignored(spec: PyTorchJobSpec) -> Iterator[Ignored]:
    if spec.elastic_policy is not None and not spec.enable_elastic:
        yield Ignored("spec.elasticPolicy", "enableElastic is not true")


def _finish(job: TrainingJob, spec: PyTorchJobSpec) -> TrainingJob:
    return replace(job, rendezvous=ROLES) if spec.elastic_policy is not None and spec.enable_elastic else job


SHAPE = Shape(
    family=KUBEDL,
    kind="PyTorchJob",
    plural="pytorchjobs",
    framework="pytorch",
    container="pytorch",
    specs_field="pytorchReplicaSpecs",
    roles=ROLES,
    spec_model=PyTorchJobSpec,
    specs=lambda spec: spec.pytorch_replica_specs,
    # `updateGeneralJobStatus` of controllers/pytorch/status.go: `succeed = succeed && allWorkersSucceed`.
    complete=lambda spec, specs: {"Master": "All", "Worker": "All"},
    restart=lambda spec, role: "ExitCode" if role == "Master" else "OnFailure",
    lone=("Master",),
    needed=("Master",),
    elastic=lambda spec: spec.elastic_policy if spec.enable_elastic else None,
    dress=_dress,
    ignored=_ignored,
    finish=_finish,
)
JOB_KIND = job_kind(SHAPE, "A PyTorch job of KubeDL: a master and workers, which may be elastic.")
