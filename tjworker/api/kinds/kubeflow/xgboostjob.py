"""XGBoostJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from tjworker.api.kinds.guests.spec import ReplicaSpec
from tjworker.api.kinds.guests.xgboost import XGBoostJobFields, XGBoostJobKind
from tjworker.api.kinds.kubeflow.family import KubeflowKind
from tjworker.api.kinds.kubeflow.spec import KubeflowSpec


class XGBoostJobSpec(XGBoostJobFields[ReplicaSpec], KubeflowSpec):
    """Specification of the job."""


class XGBoostJob(XGBoostJobKind[XGBoostJobSpec], KubeflowKind[XGBoostJobSpec]):
    description = "An XGBoost or LightGBM job of Kubeflow: a master, which has the tracker, and workers."
    spec_model = XGBoostJobSpec
    container = "xgboost"


JOB_KIND = XGBoostJob()
