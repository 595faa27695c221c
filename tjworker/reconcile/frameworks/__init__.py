"""Training frameworks (`spec.frameworkType`): what a framework's own launcher needs. `FRAMEWORKS` is the one place: a
framework is a file and a row here, and a name in `FrameworkType`, or in `GuestFramework`
where a kind of another operator's alone has it.

A framework's port and variables are defaults: what the user's template sets wins. They are applied here once, so that
ports, services and environment agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tjworker.api.model import FieldError, Role, TrainingJob
from tjworker.api.naming import Port
from tjworker.reconcile.frameworks.any import AnyFramework
from tjworker.reconcile.frameworks.framework import MOST_OF_A_VALUE, Framework
from tjworker.reconcile.frameworks.jax import Jax
from tjworker.reconcile.frameworks.mars import Mars
from tjworker.reconcile.frameworks.mpi import MPI
from tjworker.reconcile.frameworks.paddle import Paddle
from tjworker.reconcile.frameworks.pytorch import PyTorch
from tjworker.reconcile.frameworks.tensorflow import TensorFlow
from tjworker.reconcile.frameworks.xdl import XDL
from tjworker.reconcile.frameworks.xgboost import XGBoost

ANY = AnyFramework()
# Names and numbers of ports and containers are those of training-operator and KubeDL.
FRAMEWORKS: Mapping[str, Framework] = {
    "any": ANY,
    "jax": Jax("jax", Port("jaxjob-port", 6666), fixed=True),
    "mars": Mars("mars", Port("mars-port", 11111), first=("scheduler", "webservice", "worker")),
    "mpi": MPI("mpi", first=("worker", "launcher"), lone=("launcher",), fixed=True),
    "paddle": Paddle("paddle", Port("master", 36543), first=("master", "ps", "pserver")),
    "pytorch": PyTorch("pytorch", Port("pytorchjob-port", 23456), first=("master",), lone=("master",)),
    "tensorflow": TensorFlow(
        "tensorflow",
        Port("tfjob-port", 2222),
        first=("ps", "master", "chief", "worker", "evaluator"),
        lone=("chief", "master", "evaluator"),
    ),
    "xdl": XDL("xdl", Port("xdljob-port", 2222), first=("ps", "scheduler", "worker", "extendrole")),
    "xgboost": XGBoost("xgboost", Port("xgboostjob-port", 9999), first=("master",), lone=("master",), fixed=True),
}
FEW_REPLICAS = 100
"""Whose names fit into any variable."""


def find_framework(job: TrainingJob) -> Framework:
    """A job without a type has `any`. (No job of another type comes here: the parser refuses it.)"""
    return FRAMEWORKS.get(job.framework, ANY)


def framework_errors(job: TrainingJob) -> tuple[FieldError, ...]:
    """What the job's framework cannot run, and what Linux could not pass to its programs."""
    framework = find_framework(job)
    return tuple(framework.errors(job)) or tuple(_too_long(job, framework))


def _too_long(job: TrainingJob, framework: Framework) -> Iterator[FieldError]:
    """Of a role, the last replica's variables are the longest."""
    for role in job.roles if sum(role.replicas for role in job.roles) > FEW_REPLICAS else ():
        for name, value in framework.environment(job, role, max(0, role.replicas - 1)).items():
            if isinstance(value, str) and len(value) > MOST_OF_A_VALUE:
                yield FieldError(
                    job.roles_path,
                    f"has so many replicas that {name} in the pods of {role.name} has {len(value)} characters, which"
                    f" Linux cannot pass to a program; use fewer replicas, at most {MOST_OF_A_VALUE} characters of it",
                )
                return


def role_ports(job: TrainingJob, role: Role) -> tuple[Port, ...]:
    """By which the role's replicas are found."""
    return find_framework(job).ports(role)


def replica_ports(job: TrainingJob, role: Role, index: int) -> tuple[Port, ...]:
    """Those of one replica, which on the host network are its own."""
    return find_framework(job).ports_of(job, role, index)


def has_services(job: TrainingJob, role: Role) -> bool:
    """Each pod of the role is found by its name: the environment has it as a host. Who is alone and listens nowhere is
    looked for by nobody."""
    alone = not role_ports(job, role) and sum(other.replicas for other in job.roles) <= 1
    return not job.subdomain and not alone
