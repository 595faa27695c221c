"""Names of pods, services and variables of a role, and the containers and ports of a pod that count.

Pure. Takes the pod template of the manifest (raw JSON), and never raises for a template that `kinds.parse` accepted.
The `aitj-` prefixes and the service of the pod's own name are the trainingjob-operator's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tjworker.api import labels
from tjworker.api.labels import COUNTED_PREFIX
from tjworker.api.model import TrainingJob

MAX_NAME_LENGTH = 63
"""The longest name of a pod: it is also a host name, a label value and the name of a service."""


@dataclass(frozen=True, slots=True)
class Port:
    name: str
    number: int


def pod_name(job: str, role: str, index: int) -> str:
    # The name of a role may have capitals (Worker), that of a pod may not.
    return f"{job}-{role.lower()}-{index}"


def service_name(job: str, role: str, index: int) -> str:
    """The pod's own name, so that `<pod>.<namespace>` resolves to the pod."""
    return pod_name(job, role, index)


def tensorboard_name(job: str) -> str:
    """The name of a TensorBoard's pod and service, as in KubeDL."""
    return pod_name(job, "tensorboard", 0)


def owner_name(job: str, role: str) -> str:
    """The name of a role's ReplicaSet or batch Job. Its controller names the pods `<owner>-<five letters>`."""
    return f"{job}-{role}"


def longest_pod_name(job: str, role: str, replicas: int) -> str:
    """The name of the last of `replicas` pods, or of the first if there are none."""
    return pod_name(job, role, max(replicas, 1) - 1)


def env_name(role: str) -> str:
    """`data-loader` -> `DATA_LOADER`. Two roles never have the same: a role name has no `_`, and the names of a job's
    roles do not differ in case alone."""
    return role.upper().replace("-", "_")


def counted_names(names: Sequence[str], main: str | None = None) -> tuple[str, ...]:
    """The names of the containers whose exit codes count. `names`: those of a pod, in the template's order, without
    init containers.

    `main` is `TrainingJob.main_container`. None: the `aitj-` containers count. A name: the container of this name, at
    any place in the list. If no container matches, the first one counts."""
    counted = tuple(name for name in names if (name.startswith(COUNTED_PREFIX) if main is None else name == main))
    return counted or tuple(names[:1])


def containers(template: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The containers of a pod template, without its init containers."""
    spec = template.get("spec")
    found = spec.get("containers") if isinstance(spec, Mapping) else None
    return tuple(c for c in found if isinstance(c, Mapping)) if isinstance(found, list | tuple) else ()


def counted_containers(template: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    every = containers(template)
    names = set(counted_names([str(c.get("name", "")) for c in every]))
    return tuple(c for c in every if c.get("name", "") in names)


def counted_ports(template: Mapping[str, Any]) -> tuple[Port, ...]:
    """The `aitj-` ports of the counted containers, in order, each number once. If there is none, the pod's service has
    no port, and the environment lacks the role's hosts. A port without the prefix never counts, not even in a container
    that counts only as the first: it may be for metrics or a debugger."""
    found: dict[int, Port] = {}
    for container in counted_containers(template):
        for port in _named_ports(container.get("ports")):
            # A service refuses the same number twice.
            found.setdefault(port.number, port)
    return tuple(found.values())


def container_ports(container: Mapping[str, Any]) -> tuple[Port, ...]:
    """The `aitj-` ports of one container, counted or not."""
    return tuple(_named_ports(container.get("ports")))


def _named_ports(ports: object) -> Iterable[Port]:
    for port in ports if isinstance(ports, list | tuple) else ():
        if isinstance(port, Mapping):
            name, number = port.get("name"), port.get("containerPort")
            if isinstance(name, str) and name.startswith(COUNTED_PREFIX) and isinstance(number, int):
                yield Port(name, number)


def job_labels(job: TrainingJob) -> dict[str, str]:
    """The labels of all objects of a job, which select them in the namespace."""
    return {
        labels.GROUP_NAME: job.api_version.partition("/")[0],
        labels.JOB_NAME: job.name.name,
        labels.JOB_UID: job.uid,
    }


def role_labels(job: TrainingJob, role: str) -> dict[str, str]:
    """The labels of all pods and services of a role."""
    # KubeDL writes its replica-type in lower case, and its users select by it.
    is_theirs = job.guest_labels is not None and not job.guest_labels.prefix
    return job_labels(job) | {labels.REPLICA_TYPE: role.lower() if is_theirs else role, labels.REPLICA_NAME: role}


def pod_labels(job: TrainingJob, role: str, index: int, attempt: int) -> dict[str, str]:
    """The operator's labels of one pod. The framework adds `job-role: master`."""
    return role_labels(job, role) | {labels.REPLICA_INDEX: str(index), labels.RESTART_ATTEMPT: str(attempt)}


def ordinal_labels(job: TrainingJob, role: str, index: int, attempt: int) -> dict[str, str]:
    """The labels that give a controller's pod its ordinal: `replica-index`, and the label that scripts for PaddlePaddle
    EDL read."""
    return {
        labels.REPLICA_INDEX: str(index),
        labels.RESTART_ATTEMPT: str(attempt),
        f"{job.name.namespace}/{job.name.name}-{role}-idx": str(index),
    }


def selector(match: Mapping[str, str]) -> str:
    """`a=1,b=2`, the form of labelSelector and of the scale subresource."""
    # Sorted: status.selector must not change while the job does not.
    return ",".join(f"{key}={value}" for key, value in sorted(match.items()))
