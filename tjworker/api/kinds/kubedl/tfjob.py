"""TFJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.tensorflow import TFJobFields, tfjob
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import GitSyncFields, KubeDLReplicaSpec, KubeDLRunPolicy, ModelFields


class TFJobSpec(GitSyncFields, ModelFields, TFJobFields[KubeDLReplicaSpec], KubeDLRunPolicy):
    """What the job is to do."""

    success_policy: Literal["", "AllWorkers"] | None = Field(
        None,
        description="empty: the job succeeds with its Chief or Master, without one with worker 0; `AllWorkers`: with"
        " all workers, and with its Chief or Master",
    )


# `updateGeneralJobStatus` of controllers/tensorflow/status.go: `succeed = succeed && allWorkersSucceed`.
SHAPE = replace(
    tfjob(KUBEDL, TFJobSpec, workers_beside_chief=True), clean_pod_policy="Running", default_restart="ExitCode"
)
JOB_KIND = job_kind(SHAPE, "A TensorFlow job of KubeDL: parameter servers, workers, a chief, an evaluator.")
