"""KubeDL's job kinds (training.kubedl.io/v1alpha1): one file and one row here per kind.

`family` has their common base class, `spec` their common fields; `guests` has the rest.
"""

from __future__ import annotations

from tjworker.api.kinds.base import JobKind
from tjworker.api.kinds.kubedl import elasticdljob, marsjob, mpijob, pytorchjob, tfjob, xdljob, xgboostjob

JOB_KINDS: tuple[JobKind, ...] = (
    tfjob.JOB_KIND,
    pytorchjob.JOB_KIND,
    xgboostjob.JOB_KIND,
    xdljob.JOB_KIND,
    marsjob.JOB_KIND,
    mpijob.JOB_KIND,
    elasticdljob.JOB_KIND,
)
