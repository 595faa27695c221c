"""Kubeflow Trainer's kinds (trainer.kubeflow.org/v1alpha1) as in version 2.3: TrainJob, and the two kinds of runtimes
that a TrainJob names.

The runtime of a TrainJob describes its pods. `spec` has the fields of both. `patches` and `steps` merge them into
replicated jobs, `policies` add what each framework needs, `trainjob` makes the internal job, `status` writes the status
that Trainer's clients read. Trainer creates a JobSet. Here the operator creates the pods itself, with the names, labels
and annotations that JobSet gives them.
"""

from __future__ import annotations

from tjworker.api.kinds.base import JobKind
from tjworker.api.kinds.trainer import trainjob

JOB_KINDS: tuple[JobKind, ...] = (trainjob.JOB_KIND,)
