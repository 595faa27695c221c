"""TFJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Shape
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.kinds.guests.tensorflow import LONE, ROLES, complete
from tjworker.api.kinds.kubeflow.family import KUBEFLOW
from tjworker.api.kinds.kubeflow.spec import KubeflowSpec


class TFJobSpec(KubeflowSpec):
    """What the job is to do."""

    success_policy: Literal["", "AllWorkers"] | None = Field(
        None,
        description="of a job without Chief and Master: empty, it succeeds with worker 0; `AllWorkers`, with the last",
    )
    tf_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="PS, Worker, Chief (or Master) and Evaluator",
        json_schema_extra=role_rules(ROLES, "TFJob"),
    )
    enable_dynamic_worker: bool | None = Field(
        None, description="true: workers may fail and be scaled; TF_CONFIG names only the pod itself and the PS"
    )


SHAPE = Shape(
    family=KUBEFLOW,
    kind="TFJob",
    plural="tfjobs",
    framework="tensorflow",
    specs_field="tfReplicaSpecs",
    roles=ROLES,
    spec_model=TFJobSpec,
    specs=lambda spec: spec.tf_replica_specs,
    complete=lambda spec, specs: complete(spec.success_policy, specs),
    lone=LONE,
    never_fails=lambda spec: ("Worker",) if spec.enable_dynamic_worker else (),
    freely_scaled=lambda spec: ("Worker",) if spec.enable_dynamic_worker else (),
)
JOB_KIND = job_kind(SHAPE, "A TensorFlow job of Kubeflow: parameter servers, workers, a chief, an evaluator.")
