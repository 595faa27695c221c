"""TFJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.spec import ReplicaSpec
from tjworker.api.kinds.guests.tensorflow import TFJobFields, tfjob
from tjworker.api.kinds.kubeflow.family import KUBEFLOW
from tjworker.api.kinds.kubeflow.spec import KubeflowSpec


class TFJobSpec(TFJobFields[ReplicaSpec], KubeflowSpec):
    """What the job is to do."""

    enable_dynamic_worker: bool | None = Field(
        None, description="true: workers may fail and be scaled; TF_CONFIG names only the pod itself and the PS"
    )


SHAPE = replace(
    tfjob(KUBEFLOW, TFJobSpec),
    never_fails=lambda spec: ("Worker",) if spec.enable_dynamic_worker else (),
    freely_scaled=lambda spec: ("Worker",) if spec.enable_dynamic_worker else (),
)
JOB_KIND = job_kind(SHAPE, "A TensorFlow job of Kubeflow: parameter servers, workers, a chief, an evaluator.")
