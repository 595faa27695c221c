"""The base class of frameworks: the part of KubeDL's ControllerInterface that differs between frameworks. Pure.

A framework overrides what its launcher needs. Its variables and ports are defaults: the user's template has priority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tjworker.api.model import FieldError, Role, TrainingJob
from tjworker.api.naming import Port, containers, counted_ports, service_name

MOST_OF_A_VALUE = 127 * 1024
"""Linux' MAX_ARG_STRLEN is 128 KiB, including the name."""


class Expanded(str):
    """A value in which Kubernetes expands $(NAME) of earlier variables. In any other value a `$` is literal."""

    __slots__ = ()


Env = Mapping[str, str | Mapping[str, Any]]
"""Name -> value, or its source (`valueFrom`)."""


@dataclass(frozen=True, slots=True)
class Framework:
    default_container: str = ""
    """Name of the container that gets the default port. If no container has that name, the first one gets it."""
    default_port: Port | None = None
    """The port of a role whose template has none that counts. None: its services have no port."""
    first: Sequence[str] = ()
    """Names of roles, in lower case, in the order in which their objects are created. Other roles follow."""
    lone: Sequence[str] = ()
    """Roles that must have one replica: two masters would be two jobs."""
    fixed: bool = False
    """True if processes get their number when they start, so that it cannot change while they run."""

    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        """True if the replica's pod gets the label job-role=master. `index`: None for the template of a ReplicaSet or
        batch Job, whose pods get their ordinals when they run."""
        return (role.name, index) == (self.ordered(job)[0].name, 0)

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        """The variables that the framework's launcher reads. A variable of the container itself has priority."""
        return {}

    def settings(self, job: TrainingJob) -> Env:
        """The variables of what the manifest sets of the launcher in fields of its own. They replace those of
        `environment`. A variable of the container itself has priority, and they may refer to it."""
        return {}

    def files(self, job: TrainingJob, role: Role) -> Mapping[str, str]:
        """Path -> text of the files that the launcher reads. All paths are in one folder."""
        return {}

    def waits_for(self, job: TrainingJob, role: Role) -> Sequence[str]:
        """Roles whose pods must all be ready before a pod of this role is created."""
        return ()

    def errors(self, job: TrainingJob) -> Iterator[FieldError]:
        """Errors of jobs that the framework cannot run, and that a schema cannot find."""
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
        """The roles that train, in the order in which their objects are created and their replicas are ranked."""
        places = {name: place for place, name in enumerate(self.first)}
        return sorted(job.trainers or job.roles, key=lambda role: places.get(role.name.lower(), len(places)))

    def order(self, job: TrainingJob) -> Sequence[str]:
        """Names of all roles, in the order in which their objects are created."""
        # Helpers first: trainers may wait for them.
        trainers = [role.name for role in self.ordered(job)]
        return [*(role.name for role in job.roles if role.name not in trainers), *trainers]

    def ports(self, role: Role) -> tuple[Port, ...]:
        """The ports by which other replicas find those of this role: the ports of its template that count, else its
        port with the framework's name, else the framework's own."""
        named = self._named_port(role)
        return counted_ports(role.template) or (() if named is None else (named,))

    def added_port(self, role: Role) -> Port | None:
        """The port to be added to the template; None if it needs none."""
        counted = counted_ports(role.template)
        return self.default_port if not counted and not _has(role, self.default_port) else None

    def _named_port(self, role: Role) -> Port | None:
        return _has(role, self.default_port) or self.default_port

    def ports_of(self, job: TrainingJob, role: Role, index: int) -> tuple[Port, ...]:
        """The ports on which this replica listens. On the host network they are its part of the job's block."""
        ports = self.ports(role)
        if job.host_ports is None:
            return ports
        place = (index * len(job.roles) + [each.name for each in job.roles].index(role.name)) * self.most_ports(job)
        return tuple(Port(port.name, job.host_ports.at(place + i)) for i, port in enumerate(ports))

    def most_ports(self, job: TrainingJob) -> int:
        return max((len(self.ports(role)) for role in job.roles), default=0)

    def port(self, job: TrainingJob, role: Role, index: int = 0) -> int:
        """The replica's first port; 0 if it has none."""
        ports = self.ports_of(job, role, index)
        return ports[0].number if ports else 0

    def port_of(self, job: TrainingJob, role: Role) -> Callable[[int], int]:
        """index -> `port`."""
        # Without the host network all replicas have the same port. Compute it once for thousands of replicas.
        if job.host_ports is not None:
            return partial(self.port, job, role)
        common = self.port(job, role)
        return lambda _: common

    def rank(self, job: TrainingJob, role: Role, index: int) -> int:
        """The position of a replica among all replicas of the job."""
        before = 0
        for other in self.ordered(job):
            if other.name == role.name:
                break
            before += other.replicas
        return before + index

    def head(self, job: TrainingJob) -> Role:
        """The role whose replica 0 the other replicas look for."""
        return next((role for role in self.ordered(job) if role.replicas), job.roles[0])


def host(job: TrainingJob, role: Role, index: int) -> str:
    """The host name of a replica, from its own service, or from the one service of all pods. It resolves as soon as
    the pod has an address, ready or not."""
    name = service_name(job.name.name, role.name, index)
    return f"{name}.{job.subdomain}" if job.subdomain else name


def world_size(job: TrainingJob) -> int:
    """The number of replicas that train."""
    return sum(role.replicas for role in job.trainers)


def least_world(roles: Sequence[Role]) -> int:
    """Fewest replicas that these roles may have together, at least 1."""
    return sum(role.min_replicas or 0 if role.elastic else role.replicas for role in roles) or 1


def most_world(roles: Sequence[Role]) -> int:
    """Most replicas that these roles may have together."""
    return sum(role.max_replicas or 0 if role.elastic else role.replicas for role in roles)


def _has(role: Role, wanted: Port | None) -> Port | None:
    """The template's port with that name."""
    for container in containers(role.template) if wanted is not None else ():
        for port in container.get("ports") or ():
            number = port.get("containerPort") if isinstance(port, Mapping) else None
            if wanted is not None and isinstance(number, int) and port.get("name") == wanted.name:
                return Port(wanted.name, number)
    return None
