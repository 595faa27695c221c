"""TFJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.guests.spec import ReplicaSpec
from tjworker.api.kinds.guests.tensorflow import TFJobFields, TFJobKind
from tjworker.api.kinds.kubeflow.family import KubeflowKind
from tjworker.api.kinds.kubeflow.spec import KubeflowSpec


class TFJobSpec(TFJobFields[ReplicaSpec], KubeflowSpec):
    """Specification of the job."""

    enable_dynamic_worker: bool | None = Field(
        None, description="true: workers may fail and be scaled; TF_CONFIG names only the pod itself and the PS"
    )


class TFJob(TFJobKind[TFJobSpec], KubeflowKind[TFJobSpec]):
    description = "A TensorFlow job of Kubeflow: parameter servers, workers, a chief, an evaluator."
    spec_model = TFJobSpec

    def never_fails(self, spec: TFJobSpec) -> tuple[str, ...]:
        return ("Worker",) if spec.enable_dynamic_worker else ()

    def freely_scaled(self, spec: TFJobSpec) -> tuple[str, ...]:
        return ("Worker",) if spec.enable_dynamic_worker else ()


JOB_KIND = TFJob()
