"""Additions to the pod templates of an MPIJob. Kubeflow's v2beta1 has ssh keys and host names, as under the MPI
operator. Kubeflow's v1 and KubeDL's MPIJob have this operator's agent in place of `kubectl exec`. Pure.

The first container gets them. The user's template overrides all of them except the pod's host name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tjworker.api.model import JobSecret, MPILaunch, Role, Runs, TrainingJob
from tjworker.api.naming import containers
from tjworker.base import Json, mapping

LAUNCHER, WORKER = "Launcher", "Worker"
RUNS = Runs((LAUNCHER,), after_all=True)
SSHD = ("/usr/sbin/sshd", "-De")
ROOT_SSH = "/root/.ssh"
ROOT_SSH_MODE = 0o600
"""ssh of root refuses a key that other users may read."""
AGENT = "/etc/mpi/agent.py"
AGENT_PORT = 2200
AGENT_KEY_FOLDER = "/etc/mpi-agent"
AGENT_KEY = "key"
SSH_PRIVATE_KEY, SSH_PUBLIC_KEY = "ssh-privatekey", "ssh-publickey"
_SSH_FILES = ((SSH_PRIVATE_KEY, "id_rsa"), (SSH_PUBLIC_KEY, "id_rsa.pub"), (SSH_PUBLIC_KEY, "authorized_keys"))
# CUDA's base images set NVIDIA_VISIBLE_DEVICES=all. NVIDIA's container runtime then shows every GPU of the node, also
# to a container that requests none.
_NO_GPU = {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
"""Variables that hide all GPUs from a launcher without processes of its own."""


@dataclass(frozen=True, slots=True)
class PodAdditions:
    """The additions to all pods of a job."""

    job: TrainingJob
    secret: str
    hides_gpus: bool
    """True if GPUs are hidden from the launcher, because it has no processes of its own."""
    ssh_path: str = ROOT_SSH
    main_container: str = ""


def with_launch(
    job: TrainingJob, launch: MPILaunch, *, hides_gpus: bool, ssh_path: str = ROOT_SSH, main_container: str = ""
) -> TrainingJob:
    """The job with the means to start its processes: a Secret, and pod templates that use it."""
    # With the UID in the name, "already exists" proves that the Secret is this job's. So the operator needs no right to
    # read Secrets (ADR 28).
    name = f"{job.name.name}-{'agent' if launch.agent else 'ssh'}-{job.uid}"
    secret = JobSecret(name, "agent-key" if launch.agent else "ssh-key")
    change = PodAdditions(job, name, hides_gpus, ssh_path, main_container)
    with_pods = with_agent if launch.agent else with_ssh
    roles = tuple(replace(role, template=with_pods(change, role)) for role in job.roles)
    return replace(job, roles=roles, secret=secret, mpi=launch)


def with_ssh(change: PodAdditions, role: Role) -> Json:
    """The template of a pod of v2beta1: `newWorker` and `newLauncherPodTemplate` of the MPI operator."""
    job, launches = change.job.name, role.name == LAUNCHER
    pod = dict(mapping(role.template.get("spec")))
    pod["subdomain"] = job.name
    # The hostfile finds each pod by its own name. A host name in the template would be the same for all pods.
    pod.pop("hostname", None)
    if launches:
        # Under mpi-operator the launcher's host name has no index, also in the hostfile.
        pod["hostname"] = f"{job.name}-launcher"
    # As under mpi-operator, the names in the hostfile resolve in the domain of the job's service.
    dns = mapping(pod.get("dnsConfig"))
    own = f"{job.name}.{job.namespace}.svc.cluster.local"
    pod["dnsConfig"] = {**dns, "searches": [*(dns.get("searches") or ()), own]}
    items = [{"key": key, "path": path} for key, path in _SSH_FILES]
    keys: dict[str, Any] = {"secretName": change.secret, "items": items}
    if change.ssh_path == ROOT_SSH:
        # Only in root's home: the files belong to root, so a container of another user could not read them with this
        # mode.
        keys["defaultMode"] = ROOT_SSH_MODE
    _add_volume(pod, {"name": "ssh-auth", "secret": keys})
    env = {"K_MPI_JOB_ROLE": role.name.lower()} | (_NO_GPU if launches and change.hides_gpus else {})

    def main(container: Json) -> Json:
        # `newWorker` of mpi-operator: a worker without a program of its own runs sshd and waits for mpirun.
        serves = not launches and not container.get("command") and not container.get("args")
        served = {**container, "command": list(SSHD)} if serves else container
        return _added(served, env, {"name": "ssh-auth", "mountPath": change.ssh_path})

    return _of_main(role, pod, "", main)


def with_agent(change: PodAdditions, role: Role) -> Json:
    """The template of a pod of v1: `newWorker` and `newLauncher` of training-operator, `setupMPIWorker` and
    `setupMPILauncher` of KubeDL. Under these operators a worker sleeps, and kubectl starts its processes. Here it runs
    the agent, which also runs the command of the template."""
    launches = role.name == LAUNCHER
    pod = dict(mapping(role.template.get("spec")))
    _add_volume(pod, {"name": "mpi-agent-key", "secret": {"secretName": change.secret}})
    env = _NO_GPU if launches and change.hides_gpus else {}

    def main(container: Json) -> Json:
        made = container
        if not launches:
            own = list(container.get("command") or ())
            # For a worker without a command, training-operator's `sleep` also replaces the arguments. KubeDL passes
            # them to the image's entrypoint, which is unknown here: its MPIJob reports them as ignored.
            made = {k: v for k, v in container.items() if own or k != "args"}
            made["command"] = ["python3", AGENT, "serve", *(["--", *own] if own else [])]
            made = _with_port_of_the_node(pod, made)
        return _added(made, env, {"name": "mpi-agent-key", "mountPath": AGENT_KEY_FOLDER, "readOnly": True})

    # `mainContainer` is a container of the workers. In the launcher mpirun runs in the first container.
    return _of_main(role, pod, "" if launches else change.main_container, main)


def _with_port_of_the_node(pod: Json, container: dict[str, Any]) -> dict[str, Any]:
    """The container with the agent's port, if the pod is on the host network. Without it the scheduler may put two
    workers with the same port on one node."""
    number = next(
        (int(one["value"]) for one in container.get("env") or () if _is_agents_port(mapping(one))), AGENT_PORT
    )
    declared = [mapping(p) for one in pod.get("containers") or () for p in mapping(one).get("ports") or ()]
    if pod.get("hostNetwork") is not True or any(port.get("containerPort") == number for port in declared):
        return container
    # On the host's network the API server refuses a hostPort that differs from its containerPort.
    port = {"name": "mpi-agent", "containerPort": number, "hostPort": number}
    return {**container, "ports": [*(container.get("ports") or ()), port]}


def _is_agents_port(variable: Json) -> bool:
    value = variable.get("value")
    return variable.get("name") == "MPI_AGENT_PORT" and isinstance(value, str) and value.isascii() and value.isdigit()


def has_gpu(job: TrainingJob) -> bool:
    """True if the launcher has a GPU. As under training-operator, it then also runs processes."""
    for role in job.roles:
        for container in containers(role.template) if role.name == LAUNCHER else ():
            # Limits are enough: the API server refuses a request of an extended resource without a limit.
            limits = mapping(mapping(container.get("resources")).get("limits"))
            if any("gpu" in name for name in limits):
                return True
    return False


def _add_volume(pod: dict[str, Any], volume: Json) -> None:
    pod["volumes"] = [*(pod.get("volumes") or ()), volume]


def _added(container: Json, env: Mapping[str, str], mount: Json) -> Json:
    own: Sequence[Any] = container.get("env") or ()
    named = {entry.get("name") for entry in own if isinstance(entry, Mapping)}
    more = [{"name": name, "value": value} for name, value in env.items() if name not in named]
    return {**container, "env": [*own, *more], "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}


def _of_main(role: Role, pod: dict[str, Any], name: str, change: Any) -> Json:
    """The template with this pod spec, and a change of its container of that name, else of the first one."""
    every = list(pod.get("containers") or ())
    place, _ = main(every, name)
    pod["containers"] = [change(mapping(one)) if i == place else one for i, one in enumerate(every)]
    return {**role.template, "spec": pod}


def main(every: Sequence[Any], name: str) -> tuple[int, Json]:
    """(index, container) of the container with that name, else of the first one."""
    place = next((i for i, one in enumerate(every) if mapping(one).get("name") == name), 0)
    return place, mapping(every[place]) if every else {}
