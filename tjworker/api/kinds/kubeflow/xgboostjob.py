"""XGBoostJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Shape
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.kinds.kubeflow.family import KUBEFLOW
from tjworker.api.kinds.kubeflow.spec import KubeflowSpec

ROLES = ("Master", "Worker")


class XGBoostJobSpec(KubeflowSpec):
    """What the job is to do."""

    xgb_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1, max_length=16, description="Master and Worker", json_schema_extra=role_rules(ROLES, "XGBoostJob")
    )


SHAPE = Shape(
    family=KUBEFLOW,
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
