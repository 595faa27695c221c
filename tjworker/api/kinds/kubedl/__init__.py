"""KubeDL's job kinds (training.kubedl.io/v1alpha1): one file a kind, one row here.

`family` has what they share, `spec` their common fields; the rest is `guests`. Two of KubeDL's kinds are refused, with
the reason, in `NOT_SERVED`.
"""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.kinds.base import JobKind
from tjworker.api.kinds.kubedl import marsjob, pytorchjob, tfjob, xdljob, xgboostjob

JOB_KINDS: tuple[JobKind, ...] = (
    tfjob.JOB_KIND,
    pytorchjob.JOB_KIND,
    xgboostjob.JOB_KIND,
    xdljob.JOB_KIND,
    marsjob.JOB_KIND,
)
NOT_SERVED: Mapping[str, str] = {
    "mpijobs.training.kubedl.io": (
        "its launcher starts processes by `kubectl exec`, with an account that may run programs in every pod; an"
        " MPIJob of kubeflow.org/v1, or an AITrainingJob with frameworkType mpi, does without"
    ),
    "elasticdljobs.training.kubedl.io": (
        "its master makes pods itself, with an account of its own, and they would be nobody's here; an AITrainingJob"
        " with an elastic role does without"
    ),
}
