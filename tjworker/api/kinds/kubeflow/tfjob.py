"""TFJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.kubeflow.parse import Shape, Specs, job_kind
from tjworker.api.kinds.kubeflow.spec import ReplicaSpec, RunPolicy, role_rules
from tjworker.api.model import EndPolicy

ROLES = ("PS", "Worker", "Chief", "Master", "Evaluator")


class TFJobSpec(CamelModel):
    """What the job is to do."""

    run_policy: RunPolicy | None = Field(None, description="the job as a whole")
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


def _complete(spec: TFJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
    chiefs = [name for name in ("Chief", "Master") if name in specs]
    if chiefs:
        return {chiefs[0]: "All"}
    return {"Worker": "All" if spec.success_policy == "AllWorkers" else "Rank0"}


SHAPE = Shape(
    kind="TFJob",
    plural="tfjobs",
    framework="tensorflow",
    specs_field="tfReplicaSpecs",
    roles=ROLES,
    spec_model=TFJobSpec,
    specs=lambda spec: spec.tf_replica_specs,
    complete=_complete,
    lone=("Chief", "Master"),
    never_fails=lambda spec: ("Worker",) if spec.enable_dynamic_worker else (),
    freely_scaled=lambda spec: ("Worker",) if spec.enable_dynamic_worker else (),
)
JOB_KIND = job_kind(SHAPE, "A TensorFlow job of Kubeflow: parameter servers, workers, a chief, an evaluator.")
