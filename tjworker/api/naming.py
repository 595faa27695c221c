"""Names and what counts: pod, service and environment names of a role, and its counted containers and ports.

Pure. Takes a pod template as it stands in the manifest (raw JSON) and never raises for one that `kinds.parse` let pass.
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
"""Of a pod: its name is a host name, a label value and the name of its service, each of at most 63 characters."""


@dataclass(frozen=True, slots=True)
class Port:
    name: str
    number: int


def pod_name(job: str, role: str, index: int) -> str:
    return f"{job}-{role.lower()}-{index}"


def service_name(job: str, role: str, index: int) -> str:
    """The pod's own name, so that `<pod>.<namespace>` resolves to the pod."""
    return pod_name(job, role, index)


def tensorboard_name(job: str) -> str:
    """Of the pod and of the service; KubeDL's."""
    return pod_name(job, "tensorboard", 0)


def owner_name(job: str, role: str) -> str:
    """Of the ReplicaSet or batch Job that keeps a role's pods; they are named by its controller: `<owner>-<five
    letters>`."""
    return f"{job}-{role}"


def longest_pod_name(job: str, role: str, replicas: int) -> str:
    """The name of the last of `replicas` pods (of the first, when there are none)."""
    return pod_name(job, role, max(replicas, 1) - 1)


def env_name(role: str) -> str:
    """`data-loader` -> `DATA_LOADER`. Distinct roles have distinct names: a role name has no `_`, and no two roles of a
    job differ in case alone."""
    return role.upper().replace("-", "_")


def counted_names(names: Sequence[str], main: str | None = None) -> tuple[str, ...]:
    """Of a pod's container names (in the template's order, without init containers) those whose exit codes count.

    `main` is `TrainingJob.main_container`. None: the `aitj-` ones count. A name: that container counts, wherever it
    stands in the list. Where no container matches, the first counts; of a pod without containers, none."""
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
    """The `aitj-` ports of the counted containers, in order, each number once. Without one the pod's service has none,
    and its hosts are not in the environment. A port without that prefix never counts, not even of a container that
    counts only because it is the first: it may serve another purpose (metrics, a debugger)."""
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
    """The labels of all objects of a job; they select them among those of every job in the namespace."""
    return {
        labels.GROUP_NAME: job.api_version.partition("/")[0],
        labels.JOB_NAME: job.name.name,
        labels.JOB_UID: job.uid,
    }


def role_labels(job: TrainingJob, role: str) -> dict[str, str]:
    """Likewise of all pods and services of a role."""
    # KubeDL writes its replica-type in lower case, and its users select by it.
    is_theirs = job.guest_labels is not None and not job.guest_labels.prefix
    return job_labels(job) | {labels.REPLICA_TYPE: role.lower() if is_theirs else role, labels.REPLICA_NAME: role}


def pod_labels(job: TrainingJob, role: str, index: int, attempt: int) -> dict[str, str]:
    """The operator's labels of one pod. `job-role: master` is the framework's to add."""
    return role_labels(job, role) | {labels.REPLICA_INDEX: str(index), labels.RESTART_ATTEMPT: str(attempt)}


def ordinal_labels(job: TrainingJob, role: str, index: int, attempt: int) -> dict[str, str]:
    """The labels for the ordinal of a pod that a controller has made: `replica-index`, and the
    label that scripts written for PaddlePaddle EDL look for."""
    return {
        labels.REPLICA_INDEX: str(index),
        labels.RESTART_ATTEMPT: str(attempt),
        f"{job.name.namespace}/{job.name.name}-{role}-idx": str(index),
    }


def selector(match: Mapping[str, str]) -> str:
    """`a=1,b=2`: the form that the API server's labelSelector and the scale subresource read."""
    return ",".join(f"{key}={value}" for key, value in sorted(match.items()))
