"""MPI: hostfiles for `mpirun` in the launcher's pod. The pod is created when every other pod is ready: `mpirun` starts
processes there by ssh, or by another agent in the image.

/etc/mpi/hostfile is for Open MPI, with a host and its slots per line
(https://docs.open-mpi.org/en/v5.0.x/launching-apps/scheduling.html): one slot for each GPU of a worker, at least one.
Open MPI 5 finds it by PRTE_MCA_prte_default_hostfile, earlier versions by OMPI_MCA_orte_default_hostfile.
/etc/mpi/hydra_hostfile is for MPICH and Intel MPI (HYDRA_HOST_FILE, I_MPI_HYDRA_HOST_FILE). Names and paths are the MPI
operator's.

An MPIJob of Kubeflow or KubeDL gets what its own operator would give it: `mpi_guest`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tjworker.api.model import FieldError, Role, TrainingJob
from tjworker.api.naming import counted_containers
from tjworker.reconcile.frameworks import mpi_guest
from tjworker.reconcile.frameworks.framework import Env, Framework, host

LAUNCHER = "launcher"
OPEN_MPI, HYDRA = "/etc/mpi/hostfile", "/etc/mpi/hydra_hostfile"
MOST_OF_THE_HOSTFILES = 192 * 1024
"""Bytes. The files are annotations of the pod, of which Kubernetes allows 256 KiB."""


@dataclass(frozen=True, slots=True)
class MPI(Framework):
    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        return role.name.lower() == LAUNCHER

    def waits_for(self, job: TrainingJob, role: Role) -> Sequence[str]:
        if role.name.lower() != LAUNCHER or (job.mpi is not None and not job.mpi.waits):
            return ()
        return [each.name for each in _workers(job)]

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        if job.mpi is not None:
            return mpi_guest.environment(job.mpi, role.name.lower() == LAUNCHER)
        if role.name.lower() != LAUNCHER:
            return {"PYTHONUNBUFFERED": "1"}
        return {
            "PYTHONUNBUFFERED": "1",
            "PRTE_MCA_prte_default_hostfile": OPEN_MPI,
            "OMPI_MCA_orte_default_hostfile": OPEN_MPI,
            "HYDRA_HOST_FILE": HYDRA,
            "I_MPI_HYDRA_HOST_FILE": HYDRA,
        }

    def files(self, job: TrainingJob, role: Role) -> Mapping[str, str]:
        if job.mpi is not None:
            launchers = [each for each in job.roles if each.name.lower() == LAUNCHER]
            return mpi_guest.files(job, job.mpi, launchers, _workers(job), role)
        if role.name.lower() != LAUNCHER:
            return {}
        slots = [(host(job, each, i), _slots(each)) for each in _workers(job) for i in range(each.replicas)]
        return {
            OPEN_MPI: "".join(f"{name} slots={count}\n" for name, count in slots),
            HYDRA: "".join(f"{name}:{count}\n" for name, count in slots),
        }

    def errors(self, job: TrainingJob) -> Iterator[FieldError]:
        yield from Framework.errors(self, job)
        launchers = [role for role in job.roles if role.name.lower() == LAUNCHER]
        if not launchers or (len(launchers) == len(job.roles) and not (job.mpi and job.mpi.on_launcher)):
            yield FieldError(
                job.roles_path,
                f"has {', '.join(role.name for role in job.roles)}, but {job.calls_itself} has the role"
                " launcher, which runs mpirun, and at least one other, such as worker, on which it starts processes",
            )
        elif sum(len(text) for text in self.files(job, launchers[0]).values()) > MOST_OF_THE_HOSTFILES:
            yield FieldError(
                job.roles_path,
                f"has so many replicas that their hostfiles are larger than {MOST_OF_THE_HOSTFILES} bytes; use fewer"
                " workers with more slots, or a shorter name of the job",
            )


def _workers(job: TrainingJob) -> list[Role]:
    return [role for role in job.roles if role.name.lower() != LAUNCHER]


def _slots(role: Role) -> int:
    """The GPUs of a worker, at least 1."""
    count = 0
    for container in counted_containers(role.template):
        limits = (container.get("resources") or {}).get("limits") or {}
        count += sum(int(str(v)) for k, v in limits.items() if k.endswith("/gpu") and str(v).isdecimal())
    return count or 1
