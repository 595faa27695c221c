"""XGBoostJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.spec import ReplicaSpec
from tjworker.api.kinds.guests.xgboost import XGBoostJobFields, xgboostjob
from tjworker.api.kinds.kubeflow.family import KUBEFLOW
from tjworker.api.kinds.kubeflow.spec import KubeflowSpec


class XGBoostJobSpec(XGBoostJobFields[ReplicaSpec], KubeflowSpec):
    """What the job is to do."""


SHAPE = xgboostjob(KUBEFLOW, XGBoostJobSpec, "xgboost")
JOB_KIND = job_kind(SHAPE, "An XGBoost or LightGBM job of Kubeflow: a master, which has the tracker, and workers.")
