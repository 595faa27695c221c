"""KubeDL's job kinds (training.kubedl.io/v1alpha1): one file a kind, one row here.

`family` has what they share, `spec` their common fields; the rest is `guests`.
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
