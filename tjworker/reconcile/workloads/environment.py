"""The environment that the operator writes into every container, by which replicas find each other. Pure.

The names are trainingjob-operator's. In the operator's own kinds they are reserved: they replace the user's variables.
A job of another operator's kind was written for an operator that sets none of them. So there the template's variables
stay. In every kind, the template's variables replace those of a framework.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tjworker.api import labels
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import container_ports, env_name, service_name
from tjworker.reconcile.frameworks.framework import Env as FrameworkEnv
from tjworker.reconcile.frameworks.framework import Expanded
from tjworker.reconcile.peers import ListKind, left_out, role_counts, role_list

ORDER: tuple[ListKind, ...] = ("INSTANCES", "PORTS", "HOSTS")
Env = dict[str, str | Mapping[str, Any]]
"""Name -> value, or its source (`valueFrom`)."""


def role_environment(job: TrainingJob) -> dict[str, str]:
    """R_INSTANCES, R_PORTS, R_HOSTS and their _NUM for every role R of the job. All pods of a pass have the same. Big
    jobs get only the _NUM of some (`peers.left_out`)."""
    env: dict[str, str] = {}
    without = left_out(job)
    for role in job.roles:
        prefix, counts = env_name(role.name), role_counts(job, role)
        for kind in ORDER:
            if kind not in without:
                env[f"{prefix}_{kind}"] = ",".join(role_list(job, role, kind))
            env[f"{prefix}_{kind}_NUM"] = str(counts[kind])
    return env


def replica_environment(job: TrainingJob, role: Role, index: int, attempt: int) -> dict[str, str]:
    return {
        **_common(job, role),
        "TRAININGJOB_REPLICA_INDEX": str(index),
        "TRAININGJOB_REPLICA_RESTARTCOUNT": str(attempt),
        "TRAININGJOB_SERVICE": service_name(job.name.name, role.name, index),
    }


def template_environment(job: TrainingJob, role: Role) -> Env:
    """The variables of all pods of a ReplicaSet or batch Job.

    Values that differ between pods come from labels that the operator sets once the pods run. So they are empty at a
    container's first start and set from its second. A program that needs its ordinal from the beginning mounts the
    labels: a downwardAPI volume follows them."""
    return {
        **_common(job, role),
        "TRAININGJOB_REPLICA_INDEX": _label(labels.REPLICA_INDEX),
        "TRAININGJOB_REPLICA_RESTARTCOUNT": _label(labels.RESTART_ATTEMPT),
        "TRAININGJOB_SERVICE": "",
    }


def _common(job: TrainingJob, role: Role) -> dict[str, str]:
    return {
        "TRAININGJOB_NAME": job.name.name,
        "TRAININGJOB_NAMESPACE": job.name.namespace,
        "TRAININGJOB_REPLICA_NAME": role.name,
        "TRAININGJOB_REPLICA_TYPE": role.name,
    }


def container_environment(container: Mapping[str, Any]) -> dict[str, str]:
    """The variables that differ between the containers of a pod."""
    return {"TRAININGJOB_PORTS": ",".join(str(p.number) for p in container_ports(container))}


def _label(name: str) -> Mapping[str, Any]:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{name}']"}}


def list_env(job: TrainingJob, container: Mapping[str, Any], ours: Env, framework: FrameworkEnv) -> list[object]:
    """The container's `env`: the variables of the operator, of the framework, then of the template, which may therefore
    refer to the others as $(NAME). Of two variables with one name, one is kept. `ours`: the operator's variables
    without those of `container_environment`, which are added here."""
    own, template = {**ours, **container_environment(container)}, container.get("env")
    written: list[object] = template if isinstance(template, list) else []
    if job.is_guest:
        # The framework's variables, which training-operator sets, have priority over the operator's, which it does not.
        reserved, added = frozenset[str](), {**own, **framework}
    else:
        reserved, added = frozenset(own), {**framework, **own}
    kept = [e for e in written if not (isinstance(e, Mapping) and e.get("name") in reserved)]
    named = {e.get("name") for e in kept if isinstance(e, Mapping)}
    order = [*own, *(name for name in framework if name not in own)]
    return [*(_env_entry(name, added[name]) for name in order if name not in named), *kept]


def _env_entry(name: str, value: str | Mapping[str, Any]) -> object:
    if not isinstance(value, str):
        return {"name": name, "valueFrom": value}
    # Kubernetes expands $(NAME) in values. A `$` in the operator's values is literal.
    return {"name": name, "value": str(value) if isinstance(value, Expanded) else value.replace("$", "$$")}
