"""Converts an MPIJob of Kubeflow or KubeDL to an AITrainingJob of frameworkType mpi. Pure.

The templates stay as the user wrote them. The operator adds keys, an agent and a domain only to the pods of MPIJobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tjworker.api.kinds.guests.mpipods import SSHD, WORKER
from tjworker.api.kinds.kubedl.mpijob import ARGUMENTS_LOST
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import containers
from tjworker.base import Json, mapping
from tjworker.convert import kubeflow
from tjworker.convert.known import Extra, written_path
from tjworker.convert.report import Left, at, value_at

_FIELDS = (
    ("runLauncherAsWorker", "the hostfiles do not list the launcher", "add a worker, or name the launcher to mpirun"),
    ("launcherCreationPolicy", "the launcher starts when every worker is ready", "leave it out"),
    ("sshAuthMountPath", "no ssh keys are made", "mount a Secret with your keys there, in both templates"),
)


def of_kubeflow(raw: Json, job: TrainingJob) -> Extra:
    made, v1 = _special(raw, job), _by_agent(job)
    cleans = mapping(raw.get("spec")).get("cleanPodPolicy")
    # v1 has the field in two places, and its runPolicy wins; v2beta1 has it only in runPolicy.
    if not cleans or (v1 and not at(raw, "spec.runPolicy.cleanPodPolicy")):
        return made
    why = "runPolicy.cleanPodPolicy overrides it" if v1 else "only v1 has this field"
    lost = Left("spec.cleanPodPolicy", cleans, why, "set spec.cleanPodPolicy to what you want")
    return replace(made, left=(*made.left, lost))


def of_kubedl(raw: Json, job: TrainingJob) -> Extra:
    made, lost = _special(raw, job), at(raw, "spec.runPolicy.cleanPodPolicy")
    if not (lost and at(raw, "spec.cleanPodPolicy")):
        return made
    why = Left("spec.runPolicy.cleanPodPolicy", lost, "spec.cleanPodPolicy overrides it", "leave it out")
    return replace(made, left=(*made.left, why))


def _special(raw: Json, job: TrainingJob) -> Extra:
    common, by_agent = kubeflow.special(raw, job), _by_agent(job)
    roles = tuple(replace(role, template=_own(raw, role, by_agent)) for role in job.roles)
    # An AITrainingJob runs a worker's image as it is, so these args have an effect again: a note says so.
    ignored = tuple(one for one in job.ignored if one.because != ARGUMENTS_LOST)
    # The headless service of a subdomain, the Secret with keys and the agent come with an MPIJob alone.
    own = replace(job, roles=roles, subdomain="", secret=None, mpi=None, ignored=ignored)
    notes = (*_notes(job), *(_ARGUMENTS_ACT if by_agent and _has_arguments_alone(own) else ()))
    return replace(common, job=own, left=(*common.left, *_left(raw, by_agent)), notes=notes)


_ARGUMENTS_ACT = (
    "the args of a worker without a command go to the entrypoint of its image; an MPIJob runs the operator's agent"
    " instead, and drops them",
)


def _has_arguments_alone(job: TrainingJob) -> bool:
    every = (one for role in job.roles if role.name == WORKER for one in containers(role.template))
    return any(one.get("args") and not one.get("command") for one in every)


def _by_agent(job: TrainingJob) -> bool:
    """True for Kubeflow's v1 and for KubeDL: the operator's agent starts the processes."""
    return job.mpi is not None and job.mpi.agent


def _own(raw: Json, role: Role, by_agent: bool) -> Json:
    """The template as the user wrote it. A worker of v2beta1 without a command runs sshd."""
    template: Json = value_at(raw, written_path(raw, role.spec_path) or ())["template"]
    first, *rest = template["spec"]["containers"]
    # mpi-operator makes sshd the command of such a worker. The entrypoint of the image need not listen for mpirun.
    if by_agent or role.name != WORKER or first.get("command") or first.get("args"):
        return template
    return {**template, "spec": {**template["spec"], "containers": [{**first, "command": list(SSHD)}, *rest]}}


def _left(raw: Json, by_agent: bool) -> Iterator[Left]:
    spec = mapping(raw.get("spec"))
    made = (
        "the operator's agent, which starts the processes, is"
        if by_agent
        else "the ssh keys, with which mpirun starts the processes, are"
    )
    yield Left(
        "kind",
        "MPIJob",
        f"{made} added only to an MPIJob",
        "mount a Secret with your keys at /root/.ssh, or bring an agent (docs/frameworks/mpi.md), or keep the kind",
    )
    if (spec.get("slotsPerWorker") or 1) != 1:
        yield Left(
            "spec.slotsPerWorker",
            spec["slotsPerWorker"],
            "in the hostfiles a worker has a slot for each of its GPUs, or one without GPUs",
            "request as many GPUs, or use options of mpirun: --map-by, --oversubscribe, -ppn",
        )
    for name, why, instead in _FIELDS:
        if at(raw, f"spec.{name}"):
            yield Left(f"spec.{name}", spec[name], why, instead)
    if by_agent and spec.get("mainContainer"):
        yield Left("spec.mainContainer", spec["mainContainer"], "processes start where your agent runs", "leave it out")


def _notes(job: TrainingJob) -> Iterator[str]:
    yield "Open MPI reads /etc/mpi/hostfile, MPICH and Intel MPI read /etc/mpi/hydra_hostfile; each finds its own file"
    if job.subdomain:
        yield f"a worker's host name is <job>-worker-0, not <job>-worker-0.{job.subdomain}"
