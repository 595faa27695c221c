"""The common part of Kubeflow's and KubeDL's XGBoostJob: all but the family and the container's name. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.kind import GuestKind, Specs
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.model import EndPolicy

ROLES = ("Master", "Worker")
R = TypeVar("R", bound=ReplicaSpec)


class XGBoostJobFields(CamelModel, Generic[R]):
    """Specification of the job."""

    xgb_replica_specs: dict[str, R] = Field(
        min_length=1,
        max_length=16,
        description="Master and Worker",
        json_schema_extra=role_rules(ROLES, "XGBoostJob", lone=("Master",), needed=("Master",)),
    )


X = TypeVar("X", bound=XGBoostJobFields[Any])


class XGBoostJobKind(GuestKind[X]):
    kind = "XGBoostJob"
    plural = "xgboostjobs"
    roles_field = "xgbReplicaSpecs"
    roles = ROLES
    lone = ("Master",)
    needed = ("Master",)
    framework = "xgboost"

    def replica_specs(self, spec: X) -> Specs:
        return spec.xgb_replica_specs

    def complete_policies(self, spec: X, specs: Specs) -> Mapping[str, EndPolicy]:
        return {"Master": "All"}
