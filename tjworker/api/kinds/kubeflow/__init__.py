"""Kubeflow's job kinds (kubeflow.org) as training-operator 1.9 and mpi-operator 0.6 have them: one file a kind, one
row here.

`family` has what they share, `spec` their common fields; the rest is `guests`.
"""

from __future__ import annotations

from tjworker.api.kinds.base import JobKind
from tjworker.api.kinds.kubeflow import jaxjob, mpijob, paddlejob, pytorchjob, tfjob, xgboostjob

JOB_KINDS: tuple[JobKind, ...] = (
    pytorchjob.JOB_KIND,
    tfjob.JOB_KIND,
    xgboostjob.JOB_KIND,
    paddlejob.JOB_KIND,
    jaxjob.JOB_KIND,
    mpijob.JOB_KIND,
)
