"""TFJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tjworker.api.kinds.guests.kind import Restart
from tjworker.api.kinds.guests.tensorflow import TFJobFields, TFJobKind
from tjworker.api.kinds.kubedl.family import RunPolicyInSpec
from tjworker.api.kinds.kubedl.spec import GitSyncFields, KubeDLReplicaSpec, KubeDLRunPolicy, ModelFields


class TFJobSpec(GitSyncFields, ModelFields, TFJobFields[KubeDLReplicaSpec], KubeDLRunPolicy):
    """Specification of the job."""

    success_policy: Literal["", "AllWorkers"] | None = Field(
        None,
        description="empty: the job succeeds with its Chief or Master, without one with worker 0; `AllWorkers`: with"
        " all workers, and with its Chief or Master",
    )


class TFJob(TFJobKind[TFJobSpec], RunPolicyInSpec[TFJobSpec]):
    description = "A TensorFlow job of KubeDL: parameter servers, workers, a chief, an evaluator."
    spec_model = TFJobSpec
    clean_pod_policy = "Running"
    # `updateGeneralJobStatus` of controllers/tensorflow/status.go: `succeed = succeed && allWorkersSucceed`.
    workers_beside_chief = True

    # KubeDL's default. A TFJob of Kubeflow has Never.
    def default_restart(self, spec: TFJobSpec, role: str) -> Restart:
        return "ExitCode"


JOB_KIND = TFJob()
