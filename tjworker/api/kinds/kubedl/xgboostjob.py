"""XGBoostJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Shape
from tjworker.api.kinds.guests.spec import role_rules
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLSpec

ROLES = ("Master", "Worker")


class XGBoostJobSpec(KubeDLSpec):
    """What the job is to do."""

    xgb_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1, max_length=16, description="Master and Worker", json_schema_extra=role_rules(ROLES, "XGBoostJob")
    )


SHAPE = Shape(
    family=KUBEDL,
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
JOB_KIND = job_kind(SHAPE, "An XGBoost or LightGBM job of KubeDL: a master, which has the tracker, and workers.")
