"""Converts KubeDL's kinds to AITrainingJobs: what their manifests say beyond the internal job. They have the fields of
a run policy directly in the spec. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tjworker.api.containers import with_environment
from tjworker.api.kinds.batchsize import ANNOTATION_BATCH_SIZE
from tjworker.api.kinds.guests.parse import ANNOTATION_AUTOSCALE
from tjworker.api.model import Role, TrainingJob
from tjworker.base import Json, mapping
from tjworker.convert.known import Extra, rendezvous
from tjworker.convert.report import Left, Origins, Path

_OF_THE_MASTER = (
    "the operator neither restarts, scales nor deletes the pods that the master creates; an elastic role of an"
    " AITrainingJob, such as worker, can replace them"
)
_RUN = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy")


def special(raw: Json, job: TrainingJob) -> Extra:
    # An AITrainingJob completes by roles and not by a number of pods of several roles; `_left` reports it.
    own = replace(job, enough=None)
    if job.framework in ("mars", "xdl"):  # an AITrainingJob has no frameworkType for it
        roles = tuple(_task(role) for role in job.roles) if job.framework == "xdl" else job.roles
        own = replace(own, framework="", roles=roles)
    return Extra(
        own,
        left=(*_left(raw, job), *rendezvous(raw, job)),
        notes=(_OF_THE_MASTER,) if job.kind == "ElasticDLJob" else (),
        acted_upon=frozenset({ANNOTATION_AUTOSCALE, ANNOTATION_BATCH_SIZE}),
        origins=_origins(),
    )


def _task(role: Role) -> Role:
    """The role with the variables that XDL's programs read, made from the operator's own."""
    variables = {"TASK_NAME": role.name.lower(), "TASK_INDEX": "$(TRAININGJOB_REPLICA_INDEX)"}
    return replace(role, template=with_environment(role.template, variables))


def _left(raw: Json, job: TrainingJob) -> Iterator[Left]:
    if job.framework == "mars":
        yield Left(
            "kind",
            job.kind,
            "there is no frameworkType mars: its programs do not get MARS_TASK_DETAIL and similar variables",
            "set them in the templates, from the variables of the roles (docs/jobs.md), or keep the MarsJob",
        )
    if job.framework == "xdl":
        yield Left(
            "kind",
            job.kind,
            "there is no frameworkType xdl: its programs do not get XDL_CONFIG",
            "let them read TASK_NAME, TASK_INDEX and the variables of the roles (docs/jobs.md), or keep the XDLJob",
        )
    if job.enough is None:
        return
    spec = mapping(raw.get("spec"))
    given = [name for name in ("minFinishWorkRate", "minFinishWorkNum") if spec.get(name) is not None]
    # Without either field an XDLJob is done when 90 % of the pods that count have succeeded.
    for name in given or ["minFinishWorkRate"]:
        yield Left(
            f"spec.{name}",
            spec.get(name, "90, its default"),
            f"a job completes with all pods of {' and '.join(job.enough.roles)}, not with {job.enough.replicas}",
            "set completePolicy of these roles: Any, Rank0 or None",
        )


def _origins() -> Origins:
    moved: dict[Path, Path] = {("spec", "runPolicy", name): ("spec", name) for name in _RUN}
    policy = ("spec", "schedulingPolicy")
    return {**moved, ("spec", "runPolicy", *policy[1:], "priorityClass"): (*policy, "priorityClassName")}
