"""The environment that the operator writes into every container: how replicas find each other. Pure.

Source: seed 002's table, spec 1. The user's own variables win, except for these names.
"""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import counted_ports, env_name, service_name


def role_environment(job: TrainingJob) -> dict[str, str]:
    """For every role R of the job: R_INSTANCES, R_PORTS, R_HOSTS and their _NUM. The same for each pod of a pass."""
    env: dict[str, str] = {}
    for role in job.roles:
        prefix = env_name(role.name)
        instances = [service_name(job.name.name, role.name, i) for i in range(role.replicas)]
        ports = [str(p.number) for p in counted_ports(role.template)]
        hosts = [f"{instance}:{port}" for instance in instances for port in ports]
        for what, values in (("INSTANCES", instances), ("PORTS", ports), ("HOSTS", hosts)):
            env[f"{prefix}_{what}"] = ",".join(values)
            env[f"{prefix}_{what}_NUM"] = str(len(values))
    return env


def replica_environment(job: TrainingJob, role: Role, index: int, attempt: int) -> dict[str, str]:
    return {
        "TRAININGJOB_NAME": job.name.name,
        "TRAININGJOB_NAMESPACE": job.name.namespace,
        "TRAININGJOB_REPLICA_NAME": role.name,
        "TRAININGJOB_REPLICA_TYPE": role.name,
        "TRAININGJOB_REPLICA_INDEX": str(index),
        "TRAININGJOB_REPLICA_RESTARTCOUNT": str(attempt),
        "TRAININGJOB_SERVICE": service_name(job.name.name, role.name, index),
        "TRAININGJOB_PORTS": ",".join(str(p.number) for p in counted_ports(role.template)),
    }


def env_list(user: object, ours: Mapping[str, str]) -> list[object]:
    """Ours first, so that the user's own variables may refer to them as $(NAME); then the user's, less our names."""
    own = [e for e in user if not (isinstance(e, Mapping) and e.get("name") in ours)] if isinstance(user, list) else []
    # Kubernetes expands $(NAME) in values: a `$` of ours means itself.
    return [*({"name": k, "value": v.replace("$", "$$")} for k, v in ours.items()), *own]
