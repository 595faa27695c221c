"""Training frameworks (`spec.frameworkType`): what a framework's own launcher needs. `FRAMEWORKS` is the one place: a
framework is a file and a row here; a type without a row is `any`.

A framework's port and variables are defaults: what the user's template sets wins. They are applied here once, so that
ports, services and environment agree.
"""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import Port, counted_ports
from tjworker.reconcile.frameworks.any import AnyFramework
from tjworker.reconcile.frameworks.framework import Framework

ANY = AnyFramework()
FRAMEWORKS: Mapping[str, Framework] = {"any": ANY}


def find_framework(job: TrainingJob) -> Framework:
    return FRAMEWORKS.get(job.framework, ANY)


def role_ports(job: TrainingJob, role: Role) -> tuple[Port, ...]:
    """By which the role's replicas are found: the counted ports of its template, else the framework's own."""
    port = find_framework(job).default_port
    return counted_ports(role.template) or (() if port is None else (port,))


def has_services(job: TrainingJob, role: Role) -> bool:
    """Each pod of the role is found by its name: the environment has it as a host. Who is alone and listens nowhere is
    looked for by nobody."""
    return bool(role_ports(job, role)) or sum(other.replicas for other in job.roles) > 1
