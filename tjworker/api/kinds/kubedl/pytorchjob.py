"""PyTorchJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import Field

from tjworker.api.ignored import Ignored
from tjworker.api.kinds.guests.kind import Restart, Specs
from tjworker.api.kinds.guests.spec import ElasticBounds, role_rules
from tjworker.api.kinds.kubedl.family import RunPolicyInSpec
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy, ModelFields
from tjworker.api.model import EndPolicy, TrainingJob
from tjworker.api.torchrun import TorchOptions, TorchSettings

ROLES = ("Master", "Worker")


class PyTorchElasticPolicy(ElasticBounds):
    """Rendezvous of torchrun's processes, and bounds of their number."""

    rdzv_backend: str | None = Field(None, description="such as etcd or c10d. Default: c10d")
    rdzv_endpoint: str | None = Field(None, description="host:port of the rendezvous. Default: the first pod")
    n_proc_per_node: int | None = Field(None, ge=1, description="processes of each pod. Default: 1")


class PyTorchJobSpec(ModelFields, KubeDLRunPolicy):
    """Specification of the job."""

    enable_elastic: bool | None = Field(None, description="true: elasticPolicy applies")
    elastic_policy: PyTorchElasticPolicy | None = Field(None, description="makes the workers elastic, with torchrun")
    pytorch_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Master and Worker",
        json_schema_extra=role_rules(ROLES, "PyTorchJob", lone=("Master",), needed=("Master",)),
    )


class PyTorchJob(RunPolicyInSpec[PyTorchJobSpec]):
    kind = "PyTorchJob"
    plural = "pytorchjobs"
    description = "A PyTorch job of KubeDL: a master and workers, which may be elastic."
    spec_model = PyTorchJobSpec
    roles_field = "pytorchReplicaSpecs"
    roles = ROLES
    lone = ("Master",)
    needed = ("Master",)
    framework = "pytorch"
    container = "pytorch"

    def replica_specs(self, spec: PyTorchJobSpec) -> Specs:
        return spec.pytorch_replica_specs

    def complete_policies(self, spec: PyTorchJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        # `updateGeneralJobStatus` of controllers/pytorch/status.go: `succeed = succeed && allWorkersSucceed`.
        return {"Master": "All", "Worker": "All"}

    def default_restart(self, spec: PyTorchJobSpec, role: str) -> Restart:
        return "ExitCode" if role == "Master" else "OnFailure"

    def elastic_policy(self, spec: PyTorchJobSpec) -> PyTorchElasticPolicy | None:
        return spec.elastic_policy if spec.enable_elastic else None

    def ignored(self, spec: PyTorchJobSpec) -> Iterator[Ignored]:
        if spec.elastic_policy is not None and not spec.enable_elastic:
            yield Ignored("spec.elasticPolicy", "enableElastic is not true")

    def finish(self, job: TrainingJob, spec: PyTorchJobSpec) -> TrainingJob:
        elastic = self.elastic_policy(spec)
        return job if elastic is None else replace(job, torch=_torch(elastic, job.uid), rendezvous=ROLES)


def _torch(elastic: PyTorchElasticPolicy, uid: str) -> TorchSettings:
    endpoint = elastic.rdzv_endpoint or None
    return TorchSettings(
        TorchOptions(
            nproc_per_node=str(elastic.n_proc_per_node or 1),
            rdzv_backend=elastic.rdzv_backend or None,
            rdzv_endpoint=endpoint,
            # A rendezvous outside of the job may serve several jobs; the UID keeps their nodes apart.
            rdzv_id=(uid or None) if endpoint else None,
        )
    )


JOB_KIND = PyTorchJob()
