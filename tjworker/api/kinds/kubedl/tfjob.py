"""TFJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from dataclasses import replace

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.tensorflow import TFJobFields, tfjob
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import GitSyncFields, KubeDLReplicaSpec, KubeDLRunPolicy, ModelFields


class TFJobSpec(GitSyncFields, ModelFields, TFJobFields[KubeDLReplicaSpec], KubeDLRunPolicy):
    """What the job is to do."""


SHAPE = replace(tfjob(KUBEDL, TFJobSpec), clean_pod_policy="Running", default_restart="ExitCode")
JOB_KIND = job_kind(SHAPE, "A TensorFlow job of KubeDL: parameter servers, workers, a chief, an evaluator.")
