"""PyTorchJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Shape
from tjworker.api.kinds.guests.spec import ElasticBounds, role_rules
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy, ModelFields
from tjworker.api.model import Ignored, TrainingJob
from tjworker.api.torchrun import TorchOptions, TorchSettings

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


def _torch(spec: PyTorchJobSpec, uid: str) -> TorchSettings:
    elastic = spec.elastic_policy
    if elastic is None or not spec.enable_elastic:
        return TorchSettings()
    endpoint = elastic.rdzv_endpoint or None
    return TorchSettings(
        TorchOptions(
            nproc_per_node=str(elastic.n_proc_per_node or 1),
            rdzv_backend=elastic.rdzv_backend or None,
            rdzv_endpoint=endpoint,
            rdzv_id=(uid or None) if endpoint else None,
        )
    )


def _ignored(spec: PyTorchJobSpec) -> Iterator[Ignored]:
    if spec.elastic_policy is not None and not spec.enable_elastic:
        yield Ignored("spec.elasticPolicy", "enableElastic is not true")


def _finish(job: TrainingJob, spec: PyTorchJobSpec) -> TrainingJob:
    elastic = spec.elastic_policy is not None and spec.enable_elastic
    return replace(job, torch=_torch(spec, job.uid), rendezvous=ROLES if elastic else ())


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
    ignored=_ignored,
    finish=_finish,
)
JOB_KIND = job_kind(SHAPE, "A PyTorch job of KubeDL: a master and workers, which may be elastic.")
