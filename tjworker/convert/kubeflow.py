"""Converts Kubeflow's kinds to AITrainingJobs: what their manifests say beyond the internal job. Pure."""

from __future__ import annotations

from tjworker.api.kinds.batchsize import ANNOTATION_BATCH_SIZE
from tjworker.api.kinds.guests.parse import ANNOTATION_AUTOSCALE
from tjworker.api.model import TrainingJob
from tjworker.base import Json
from tjworker.convert.known import Extra, managed_by, rendezvous
from tjworker.convert.report import Origins, Path

_RUN, _ELASTIC = ("spec", "runPolicy"), ("spec", "elasticPolicy")


def special(raw: Json, job: TrainingJob) -> Extra:
    return Extra(
        job,
        left=(*managed_by(raw), *rendezvous(raw, job)),
        acted_upon=frozenset({ANNOTATION_AUTOSCALE, ANNOTATION_BATCH_SIZE}),
        origins=_origins(job),
    )


def _origins(job: TrainingJob) -> Origins:
    moved: dict[Path, Path] = {
        ("spec", "cleanPodPolicy"): (*_RUN, "cleanPodPolicy"),
        ("spec", "suspend"): (*_RUN, "suspend"),
    }
    for role in job.roles:
        for bound in ("minReplicas", "maxReplicas"):
            moved[("spec", "replicaSpecs", role.name, bound)] = (*_ELASTIC, bound)
    return moved
