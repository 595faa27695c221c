"""Training frameworks (`spec.frameworkType`) and the needs of their launchers. Each is a file, a row of `FRAMEWORKS`
and a name in `FrameworkType`, or in `GuestFramework` if only a kind of another operator has it.

A framework's port and variables are defaults: the user's template has priority. They are applied only here, so that
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
"""The names of so many replicas fit into any variable."""


def find_framework(job: TrainingJob) -> Framework:
    """The job's framework; `any` for a job without a type. The parser refuses unknown types."""
    return FRAMEWORKS.get(job.framework, ANY)


def framework_errors(job: TrainingJob) -> tuple[FieldError, ...]:
    """Errors of a spec that the framework cannot run, or whose variables are too long for Linux."""
    framework = find_framework(job)
    return tuple(framework.errors(job)) or tuple(_too_long(job, framework))


def _too_long(job: TrainingJob, framework: Framework) -> Iterator[FieldError]:
    # The last replica of a role has the longest variables.
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
    """The ports by which other replicas find those of this role."""
    return find_framework(job).ports(role)


def replica_ports(job: TrainingJob, role: Role, index: int) -> tuple[Port, ...]:
    """The ports of one replica, which differ between replicas on the host network."""
    return find_framework(job).ports_of(job, role, index)


def has_services(job: TrainingJob, role: Role) -> bool:
    """True if each pod of the role has a service, so that its name is a host in the environment."""
    # No pod looks for the only pod of a job if it has no port.
    alone = not role_ports(job, role) and sum(other.replicas for other in job.roles) <= 1
    return not job.subdomain and not alone
