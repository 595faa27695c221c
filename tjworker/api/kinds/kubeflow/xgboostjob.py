"""XGBoostJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.kubeflow.parse import Shape, job_kind
from tjworker.api.kinds.kubeflow.spec import ReplicaSpec, RunPolicy, role_rules

ROLES = ("Master", "Worker")


class XGBoostJobSpec(CamelModel):
    """What the job is to do."""

    run_policy: RunPolicy | None = Field(None, description="the job as a whole")
    xgb_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1, max_length=16, description="Master and Worker", json_schema_extra=role_rules(ROLES, "XGBoostJob")
    )


SHAPE = Shape(
    kind="XGBoostJob",
    plural="xgboostjobs",
    framework="xgboost",
    specs_field="xgbReplicaSpecs",
    roles=ROLES,
    spec_model=XGBoostJobSpec,
    specs=lambda spec: spec.xgb_replica_specs,
    complete=lambda spec, specs: {"Master": "All"},
    lone=("Master",),
    needed=("Master",),
)
JOB_KIND = job_kind(SHAPE, "An XGBoost or LightGBM job of Kubeflow: a master, which has the tracker, and workers.")
