"""What a framework decides: KubeDL's ControllerInterface, cut down to that. Pure.

`Framework` decides nothing for anybody: a framework overrides what its own launcher needs. Variables and ports of a
framework are defaults: what the user's template sets wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tjworker.api.model import FieldError, Role, TrainingJob
from tjworker.api.naming import Port, containers, counted_ports, service_name

MOST_OF_A_VALUE = 127 * 1024
"""Linux' MAX_ARG_STRLEN is 128 KiB, with the name."""


class Expanded(str):
    """A value in which Kubernetes puts variables that stand before it, as $(NAME). In any other a `$` means itself."""

    __slots__ = ()


Env = Mapping[str, str | Mapping[str, Any]]
"""Name -> value, or where Kubernetes takes it from (`valueFrom`)."""


@dataclass(frozen=True, slots=True)
class Framework:
    default_container: str = ""
    """Name of the container that gets the default port; where no container has it, the first."""
    default_port: Port | None = None
    """Of a role whose template has no port that counts; None: its services have no port."""
    first: Sequence[str] = ()
    """Names of roles, in lower case, in the order in which their objects are made; other roles come after them."""
    lone: Sequence[str] = ()
    """Of those, the ones that have one replica: two masters would be two jobs."""
    fixed: bool = False
    """Its processes are told at their start how many they are: the number cannot change while they run."""

    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        """The replica's pod carries the label job-role=master. `index`: None for the template of a ReplicaSet or batch
        Job, whose pods get their ordinals when they run."""
        return (role.name, index) == (self.ordered(job)[0].name, 0)

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        """The cluster spec, as the framework's launcher reads it. A variable that the container itself sets wins."""
        return {}

    def files(self, job: TrainingJob, role: Role) -> Mapping[str, str]:
        """Likewise, what it reads from files: their paths, all in one folder, and their text."""
        return {}

    def waits_for(self, job: TrainingJob, role: Role) -> Sequence[str]:
        """Roles all of whose pods must be ready before one of this role is made."""
        return ()

    def errors(self, job: TrainingJob) -> Iterator[FieldError]:
        """What it cannot run and no schema can tell."""
        for role in job.roles:
            if role.name.lower() in self.lone and role.replicas > 1:
                yield FieldError(
                    role.spec_path,
                    f"is {role.replicas}, but {job.calls_itself} has one {role.name.lower()}; set it to 1",
                )
            if self.fixed and role.autoscaled:
                yield FieldError(
                    f"{job.roles_path}.{role.name}.edlPolicy",
                    f"is Auto, but {job.framework} cannot change its number of processes while they run; set it to"
                    " Manual, or minReplicas and maxReplicas to the same number",
                )

    def ordered(self, job: TrainingJob) -> list[Role]:
        """The roles that train, in the order in which their objects are made, and in which their replicas are
        counted."""
        places = {name: place for place, name in enumerate(self.first)}
        return sorted(job.trainers or job.roles, key=lambda role: places.get(role.name.lower(), len(places)))

    def order(self, job: TrainingJob) -> Sequence[str]:
        """All roles, in the order in which their objects are made. Helpers come first: trainers may wait for them."""
        trainers = [role.name for role in self.ordered(job)]
        return [*(role.name for role in job.roles if role.name not in trainers), *trainers]

    def ports(self, role: Role) -> tuple[Port, ...]:
        """By which the role's replicas are found: the counted ports of its template, else the one of the framework's
        name, else the framework's own."""
        named = self._named_port(role)
        return counted_ports(role.template) or (() if named is None else (named,))

    def added_port(self, role: Role) -> Port | None:
        """The port that the template lacks."""
        counted = counted_ports(role.template)
        return self.default_port if not counted and not _has(role, self.default_port) else None

    def _named_port(self, role: Role) -> Port | None:
        return _has(role, self.default_port) or self.default_port

    def ports_of(self, job: TrainingJob, role: Role, index: int) -> tuple[Port, ...]:
        """Those on which this replica listens: of a job on the host network, its places in the job's block."""
        ports = self.ports(role)
        if job.host_ports is None:
            return ports
        place = (index * len(job.roles) + [each.name for each in job.roles].index(role.name)) * self.most_ports(job)
        return tuple(Port(port.name, job.host_ports.at(place + i)) for i, port in enumerate(ports))

    def most_ports(self, job: TrainingJob) -> int:
        return max((len(self.ports(role)) for role in job.roles), default=0)

    def port(self, job: TrainingJob, role: Role, index: int = 0) -> int:
        found = self.ports_of(job, role, index)
        return found[0].number if found else 0

    def port_of(self, job: TrainingJob, role: Role) -> Callable[[int], int]:
        """`port` by the index, found once where all are alike: a role may have thousands, in each of its pods."""
        if job.host_ports is not None:
            return partial(self.port, job, role)
        alike = self.port(job, role)
        return lambda _: alike

    def rank(self, job: TrainingJob, role: Role, index: int) -> int:
        """The place of a replica among all of the job."""
        before = 0
        for other in self.ordered(job):
            if other.name == role.name:
                break
            before += other.replicas
        return before + index

    def head(self, job: TrainingJob) -> Role:
        """The role whose replica 0 is the one that the others look for."""
        return next((role for role in self.ordered(job) if role.replicas), job.roles[0])


def host(job: TrainingJob, role: Role, index: int) -> str:
    """By which the others find the replica: the name of its own service, or its place in the service of all."""
    name = service_name(job.name.name, role.name, index)
    return f"{name}.{job.subdomain}" if job.subdomain else name


def world_size(job: TrainingJob) -> int:
    return sum(role.replicas for role in job.trainers)


def least_world(roles: Sequence[Role]) -> int:
    """Fewest replicas that these roles may have together, at least 1."""
    return sum(role.min_replicas or 0 if role.elastic else role.replicas for role in roles) or 1


def most_world(roles: Sequence[Role]) -> int:
    """Most replicas that these roles may have together."""
    return sum(role.max_replicas or 0 if role.elastic else role.replicas for role in roles)


def _has(role: Role, wanted: Port | None) -> Port | None:
    """The port of that name which the template has."""
    for container in containers(role.template) if wanted is not None else ():
        for port in container.get("ports") or ():
            number = port.get("containerPort") if isinstance(port, Mapping) else None
            if wanted is not None and isinstance(number, int) and port.get("name") == wanted.name:
                return Port(wanted.name, number)
    return None
