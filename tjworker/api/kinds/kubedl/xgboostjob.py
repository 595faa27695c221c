"""XGBoostJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.xgboost import XGBoostJobFields, xgboostjob
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLRunPolicy


class XGBoostJobSpec(XGBoostJobFields[KubeDLReplicaSpec], KubeDLRunPolicy):
    """What the job is to do."""


SHAPE = xgboostjob(KUBEDL, XGBoostJobSpec, "xgboostjob")
JOB_KIND = job_kind(SHAPE, "An XGBoost or LightGBM job of KubeDL: a master, which has the tracker, and workers.")
