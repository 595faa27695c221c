"""What Kubeflow's XGBoostJob and KubeDL's have in common: all but the family and the container's name. Pure."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.shape import Family, Shape
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules

ROLES = ("Master", "Worker")
R = TypeVar("R", bound=ReplicaSpec)


class XGBoostJobFields(CamelModel, Generic[R]):
    """What the job is to do."""

    xgb_replica_specs: dict[str, R] = Field(
        min_length=1,
        max_length=16,
        description="Master and Worker",
        json_schema_extra=role_rules(ROLES, "XGBoostJob", lone=("Master",), needed=("Master",)),
    )


def xgboostjob(family: Family, spec_model: type[XGBoostJobFields[Any]], container: str) -> Shape:
    return Shape(
        family=family,
        kind="XGBoostJob",
        plural="xgboostjobs",
        framework="xgboost",
        container=container,
        specs_field="xgbReplicaSpecs",
        roles=ROLES,
        spec_model=spec_model,
        specs=lambda spec: spec.xgb_replica_specs,
        complete=lambda spec, specs: {"Master": "All"},
        lone=("Master",),
        needed=("Master",),
    )
