"""Variables and files of an MPIJob's launcher, as in the MPI operator (Kubeflow's v2beta1: `newConfigMap`,
`ompiEnvVars`), training-operator (v1: `newLauncher`) and KubeDL (`setupLauncherMainContainers`). For the last two this
operator's agent replaces kubectl.

Open MPI 5 reads PRTE_MCA_*, earlier versions OMPI_MCA_*. Those operators set only the latter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files as package_files

from tjworker.api.model import MPILaunch, Role, TrainingJob
from tjworker.api.naming import service_name
from tjworker.reconcile.frameworks.framework import Env, host

HOSTFILE, DISCOVER, AGENT, REMOTE = (
    "/etc/mpi/hostfile",
    "/etc/mpi/discover_hosts.sh",
    "/etc/mpi/agent.py",
    "/etc/mpi/kubexec.sh",
)
SSH_ARGS = "-o ConnectionAttempts=10"


_BY_AGENT: Mapping[str, Env] = {
    "OpenMPI": {
        "OMPI_MCA_plm_rsh_agent": REMOTE,
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "PRTE_MCA_plm_ssh_agent": REMOTE,
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": REMOTE,
    },
    "Intel": {"I_MPI_HYDRA_HOST_FILE": HOSTFILE, "I_MPI_HYDRA_BOOTSTRAP": "rsh", "I_MPI_HYDRA_BOOTSTRAP_EXEC": REMOTE},
    "MPICH": {"HYDRA_HOST_FILE": HOSTFILE, "HYDRA_LAUNCHER_EXEC": REMOTE},
}


def environment(how: MPILaunch, launches: bool) -> Env:
    if not launches:
        return {}
    if how.agent:
        return _BY_AGENT[how.implementation]
    if how.implementation == "Intel":
        return {
            "I_MPI_HYDRA_HOST_FILE": HOSTFILE,
            "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": SSH_ARGS,
            "I_MPI_PERHOST": str(how.slots),
        }
    if how.implementation == "MPICH":
        return {"HYDRA_HOST_FILE": HOSTFILE, "HYDRA_LAUNCH_EXTRA_ARGS": SSH_ARGS}
    return {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "OMPI_MCA_plm_rsh_args": SSH_ARGS,
        "OMPI_MCA_orte_set_default_slots": str(how.slots),
        "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
        "PRTE_MCA_prte_default_hostfile": HOSTFILE,
        "PRTE_MCA_plm_ssh_args": SSH_ARGS,
        "PRTE_MCA_prte_set_default_slots": str(how.slots),
    }


def files(
    job: TrainingJob, how: MPILaunch, launchers: Sequence[Role], workers: Sequence[Role], role: Role
) -> Mapping[str, str]:
    """Path -> text. Horovod runs `discover_hosts.sh` to find its hosts."""
    remote = {REMOTE: f'#!/bin/sh\nexec python3 {AGENT} "$@"\n', AGENT: _agent()} if how.agent else {}
    if role not in launchers:
        return remote
    hosts = [_host(job, launchers[0], 0)] if how.on_launcher else []
    hosts += [_host(job, each, i) for each in workers for i in range(each.replicas)]
    separator = " slots=" if how.implementation == "OpenMPI" else ":"
    echoes = "\n".join(f"echo {name}{f':{how.slots}' if how.agent else ''}" for name in hosts)
    return {
        HOSTFILE: "".join(f"{name}{separator}{how.slots}\n" for name in hosts),
        DISCOVER: f"#!/bin/sh\n{echoes}\n",
        **remote,
    }


def _host(job: TrainingJob, role: Role, index: int) -> str:
    # With a subdomain, use the name that a pod has for itself, so that mpirun recognizes its own host.
    if not job.subdomain:
        return host(job, role, index)
    pod = role.template["spec"].get("hostname") or service_name(job.name.name, role.name, index)
    return f"{pod}.{job.subdomain}.{job.name.namespace}.svc"


@cache
def _agent() -> str:
    return package_files("tjworker").joinpath("mpi_agent.py").read_text(encoding="utf-8")
