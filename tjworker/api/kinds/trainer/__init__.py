"""Kubeflow Trainer's kinds (trainer.kubeflow.org/v1alpha1) as version 2.3 has them: TrainJob, which is a job, and the
two kinds of runtimes that a TrainJob names.

A TrainJob says little; its runtime says what its pods are. `spec` has the fields of both, `patches` and `steps` make
the replicated jobs of the two, `policies` add what each framework needs, `trainjob` makes the internal job, `status`
writes what Trainer's clients read. Trainer makes a JobSet of them; here the operator makes the pods itself, with the
names, labels and annotations that JobSet gives them.
"""

from __future__ import annotations

from tjworker.api.kinds.base import JobKind
from tjworker.api.kinds.trainer import trainjob

JOB_KINDS: tuple[JobKind, ...] = (trainjob.JOB_KIND,)
