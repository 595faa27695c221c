"""An MPIJob, Kubeflow's or KubeDL's -> AITrainingJob of frameworkType mpi: the templates as the user wrote them,
without what the operator puts into an MPIJob's pods: keys, an agent, a domain. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tjworker.api.kinds.base import mapping
from tjworker.api.kinds.guests.mpipods import SSHD, WORKER
from tjworker.api.kinds.kubedl.mpijob import ARGUMENTS_LOST
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import containers
from tjworker.base import Json
from tjworker.convert import kubeflow
from tjworker.convert.known import Extra, written_path
from tjworker.convert.report import Left, at

_FIELDS = (
    ("runLauncherAsWorker", "the launcher is no host of the hostfiles", "add a worker, or name the launcher to mpirun"),
    ("launcherCreationPolicy", "the launcher starts when every worker is ready", "leave it out"),
    ("sshAuthMountPath", "no keys are made", "mount a Secret of yours there, in both templates"),
)


def of_kubeflow(raw: Json, job: TrainingJob) -> Extra:
    made, v1 = _special(raw, job), _by_agent(job)
    cleans = mapping(raw.get("spec")).get("cleanPodPolicy")
    if not cleans or (v1 and not at(raw, "spec.runPolicy.cleanPodPolicy")):
        return made
    why = "runPolicy.cleanPodPolicy wins" if v1 else "v1 alone has it"
    lost = Left("spec.cleanPodPolicy", cleans, why, "set spec.cleanPodPolicy to what you want")
    return replace(made, left=(*made.left, lost))


def of_kubedl(raw: Json, job: TrainingJob) -> Extra:
    made, lost = _special(raw, job), at(raw, "spec.runPolicy.cleanPodPolicy")
    if not (lost and at(raw, "spec.cleanPodPolicy")):
        return made
    why = Left("spec.runPolicy.cleanPodPolicy", lost, "spec.cleanPodPolicy wins", "leave it out")
    return replace(made, left=(*made.left, why))


def _special(raw: Json, job: TrainingJob) -> Extra:
    common, by_agent = kubeflow.special(raw, job), _by_agent(job)
    roles = tuple(replace(role, template=_own(raw, role, by_agent)) for role in job.roles)
    ignored = tuple(one for one in job.ignored if one.because != ARGUMENTS_LOST)
    own = replace(job, roles=roles, subdomain="", secret=None, mpi=None, ignored=ignored)
    notes = (*_notes(job), *(_ARGUMENTS_ACT if by_agent and _has_arguments_alone(own) else ()))
    return replace(common, job=own, left=(*common.left, *_left(raw, by_agent)), notes=notes)


_ARGUMENTS_ACT = (
    "the args of a worker without a command go to the entrypoint of its image: beside the operator's agent they are"
    " lost",
)


def _has_arguments_alone(job: TrainingJob) -> bool:
    every = (one for role in job.roles if role.name == WORKER for one in containers(role.template))
    return any(one.get("args") and not one.get("command") for one in every)


def _by_agent(job: TrainingJob) -> bool:
    """Kubeflow's v1, and KubeDL's."""
    return job.mpi is not None and job.mpi.agent


def _own(raw: Json, role: Role, by_agent: bool) -> Json:
    """As it is written; a worker without a command is an sshd, as in v2beta1."""
    path = written_path(raw, role.spec_path)
    here: Any = raw
    for step in path or ():
        here = here[step]
    template: Json = here["template"]
    first, *rest = template["spec"]["containers"]
    if by_agent or role.name != WORKER or first.get("command") or first.get("args"):
        return template
    return {**template, "spec": {**template["spec"], "containers": [{**first, "command": list(SSHD)}, *rest]}}


def _left(raw: Json, by_agent: bool) -> Iterator[Left]:
    spec = mapping(raw.get("spec"))
    made = (
        "the operator's agent, which starts its processes,"
        if by_agent
        else "the ssh keys, by which it starts processes,"
    )
    yield Left(
        "kind",
        "MPIJob",
        f"{made} the operator makes for an MPIJob alone",
        "mount a Secret with keys of yours at /root/.ssh, or bring an agent (docs/frameworks/mpi.md), or keep the kind",
    )
    if (spec.get("slotsPerWorker") or 1) != 1:
        yield Left(
            "spec.slotsPerWorker",
            spec["slotsPerWorker"],
            "a worker's slots in the hostfiles are its GPUs, else one",
            "ask for as many GPUs, or tell mpirun: --map-by, --oversubscribe, -ppn",
        )
    for name, why, instead in _FIELDS:
        if at(raw, f"spec.{name}"):
            yield Left(f"spec.{name}", spec[name], why, instead)
    if by_agent and spec.get("mainContainer"):
        yield Left("spec.mainContainer", spec["mainContainer"], "processes start where your agent runs", "leave it out")


def _notes(job: TrainingJob) -> Iterator[str]:
    yield "/etc/mpi/hostfile is Open MPI's, /etc/mpi/hydra_hostfile that of MPICH and Intel MPI; each finds its own"
    if job.subdomain:
        yield f"a worker's host name is <job>-worker-0, not <job>-worker-0.{job.subdomain}"
