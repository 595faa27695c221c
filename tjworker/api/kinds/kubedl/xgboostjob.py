"""XGBoostJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from tjworker.api.kinds.guests.xgboost import XGBoostJobFields, XGBoostJobKind
from tjworker.api.kinds.kubedl.family import RunPolicyInSpec
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy


class XGBoostJobSpec(XGBoostJobFields[KubeDLReplicaSpec], KubeDLRunPolicy):
    """Specification of the job."""


class XGBoostJob(XGBoostJobKind[XGBoostJobSpec], RunPolicyInSpec[XGBoostJobSpec]):
    description = "An XGBoost or LightGBM job of KubeDL: a master, which has the tracker, and workers."
    spec_model = XGBoostJobSpec
    container = "xgboostjob"


JOB_KIND = XGBoostJob()
