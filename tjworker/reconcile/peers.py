"""The lists by which replicas find each other, such as `TRAINER_HOSTS`, and their maximum size. Pure.

Every pod has every list, and a list names every replica, so their total grows with the square of the job. A list above
the bounds is left out and never cut short: a program that needs it fails at once, with the name of the variable. A
program can do without: hosts have the fixed names `<job>-<role>-<index>`, and the numbers are never left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import containers, env_name, service_name
from tjworker.reconcile.frameworks import replica_ports, role_ports

_DIGITS = 10
"""At least the digits of an index or a port."""
ListKind = Literal["HOSTS", "INSTANCES", "PORTS"]
KINDS: tuple[ListKind, ...] = ("HOSTS", "INSTANCES", "PORTS")
"""In the order in which they are left out. A program can build the first from the others."""

KIB, MIB = 1 << 10, 1 << 20
MOST_OF_A_VARIABLE = 128 * KIB
"""Linux' MAX_ARG_STRLEN: execve refuses a longer `NAME=value` (with the byte that ends it), so no container starts."""
MOST_OF_A_CONTAINER = 256 * KIB
MOST_OF_A_JOB = 512 * MIB
"""For all lists of all pods: a quarter of etcd's default size (--quota-backend-bytes)."""


def role_list(job: TrainingJob, role: Role, kind: ListKind) -> list[str]:
    """One list of the role, of any size. Call `left_out` first."""
    # Pods of a ReplicaSet or batch Job have no names before they exist, and no services. They are selected by label.
    if job.host_ports is not None:
        return _own_ports(job, role, kind)
    ports = _ports(job, role)
    if kind == "PORTS":
        return ports
    instances = [service_name(job.name.name, role.name, i) for i in range(_named(role))]
    return instances if kind == "INSTANCES" else [f"{instance}:{port}" for instance in instances for port in ports]


def _own_ports(job: TrainingJob, role: Role, kind: ListKind) -> list[str]:
    """The list on the host network. Each replica has its own ports there, and PORTS holds all of them in the order of
    INSTANCES."""
    values = []
    for i in range(_named(role)):
        name, ports = service_name(job.name.name, role.name, i), [p.number for p in replica_ports(job, role, i)]
        values += (
            [name] if kind == "INSTANCES" else [f"{name}:{port}" if kind == "HOSTS" else str(port) for port in ports]
        )
    return values


def role_counts(job: TrainingJob, role: Role) -> dict[ListKind, int]:
    """The length of each `role_list`, also of one that is left out."""
    # For a ReplicaSet or batch Job it stays the number at the start: their template is written once.
    return _counts(job, role, len(_ports(job, role)))


def _counts(job: TrainingJob, role: Role, ports: int) -> dict[ListKind, int]:
    every = _named(role) * ports
    return {"HOSTS": every, "INSTANCES": role.replicas, "PORTS": ports if job.host_ports is None else every}


def left_out(job: TrainingJob) -> tuple[ListKind, ...]:
    """The kinds of lists that are too big for this job's pods. They are left out for every role."""
    # Computed without building the lists, which may have ten million entries.
    ports = [_ports(job, role) for role in job.roles]
    copies = sum(role.replicas * max(1, _containers(role)) for role in job.roles)
    room = min(MOST_OF_A_CONTAINER, MOST_OF_A_JOB // max(1, copies))
    if _at_most(job, max(map(len, ports), default=0)) <= min(room, MOST_OF_A_VARIABLE):
        # Quick exit for most jobs, because each pass calls this.
        return ()
    sizes = {kind: [_variable_size(job, *each, kind) for each in zip(job.roles, ports, strict=True)] for kind in KINDS}
    kept = [kind for kind in KINDS if max(sizes[kind], default=0) <= MOST_OF_A_VARIABLE]
    while kept and sum(sum(sizes[kind]) for kind in kept) > room and any(_entries(job, kind) for kind in kept):
        del kept[0]
    return tuple(kind for kind in KINDS if kind not in kept)


def describe_left_out(job: TrainingJob) -> str:
    """The message for the job's owner; '' if no list is left out."""
    kinds = left_out(job)
    if not kinds:
        return ""
    names = " and ".join(f"*_{kind}" for kind in kinds)
    return (
        f"its pods get no {names}: the lists of so many replicas are more than a container or etcd can take; replicas"
        f" are called {job.name.name}-<role>-<index>, and *_NUM say how many there are"
    )


def _at_most(job: TrainingJob, ports: int) -> int:
    """An upper bound for the bytes of all lists of a pod. `ports`: the largest number of ports of a role."""
    entries = sum(role.replicas for role in job.roles) * max(1, ports)
    longest = len(job.name.name) + max((len(role.name) for role in job.roles), default=0) + len("--:,") + 2 * _DIGITS
    return len(KINDS) * (entries + len(job.roles)) * longest


def _variable_size(job: TrainingJob, role: Role, ports: Sequence[str], kind: ListKind) -> int:
    """Bytes of `NAME=value` and the byte that ends it."""
    if job.host_ports is not None:
        # Short enough to be built: there are no more replicas than ports in the range.
        return len(env_name(role.name)) + len(kind) + len("_=") + len(",".join(_own_ports(job, role, kind))) + 1
    port_bytes = sum(map(len, ports))
    name_bytes = _named(role) * len(service_name(job.name.name, role.name, 0)) + _more_digits(_named(role))
    match kind:
        case "HOSTS":
            value = len(ports) * name_bytes + _named(role) * (port_bytes + len(ports))
        case "INSTANCES":
            value = name_bytes
        case "PORTS":
            value = port_bytes
    commas = max(0, _counts(job, role, len(ports))[kind] - 1) if value else 0
    return len(env_name(role.name)) + 1 + len(kind) + len("=") + value + commas + 1


def _more_digits(count: int) -> int:
    """Digits of the indices below `count`, without the first digit of each."""
    return sum(max(0, count - 10**digits) for digits in range(1, len(str(count))))


def _entries(job: TrainingJob, kind: ListKind) -> int:
    return sum(role_counts(job, role)[kind] for role in job.roles)


def _named(role: Role) -> int:
    return role.replicas if role.workload == "Pod" else 0


def _ports(job: TrainingJob, role: Role) -> list[str]:
    return [str(port.number) for port in role_ports(job, role)]


def _containers(role: Role) -> int:
    spec = role.template.get("spec")
    inits = spec.get("initContainers") if isinstance(spec, dict) else None
    return len(containers(role.template)) + (len(inits) if isinstance(inits, list) else 0)
