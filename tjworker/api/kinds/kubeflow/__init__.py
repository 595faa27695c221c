"""Kubeflow's job kinds (kubeflow.org) as in training-operator 1.9 and mpi-operator 0.6: one file and one row here per
kind.

`family` has their common base class, `spec` their common fields; `guests` has the rest.
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
