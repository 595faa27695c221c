"""The environment that the operator writes into every container: how replicas find each other. Pure.

The names are trainingjob-operator's. In our own kinds they are reserved: they replace the user's variables. A job of
another operator's kind was written for an operator that sets none of them, so there every variable of the template
stays as it is. A framework's variables yield to the template's in every kind.
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
"""Name -> value, or where Kubernetes takes it from (`valueFrom`)."""


def role_environment(job: TrainingJob) -> dict[str, str]:
    """For every role R of the job: R_INSTANCES, R_PORTS, R_HOSTS and their _NUM. The same for each pod of a pass. Of a
    big job, only the _NUM of some (`peers.left_out`)."""
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
    """Of all pods of a ReplicaSet or batch Job: what differs from pod to pod comes out of the labels that the operator
    gives them when they run. So it is empty in a container's first start and there from its second; a program that
    needs its ordinal from the beginning mounts the labels (a downwardAPI volume follows them)."""
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
    """What differs between the containers of a pod."""
    return {"TRAININGJOB_PORTS": ",".join(str(p.number) for p in container_ports(container))}


def _label(name: str) -> Mapping[str, Any]:
    return {"fieldRef": {"fieldPath": f"metadata.labels['{name}']"}}


def list_env(job: TrainingJob, container: Mapping[str, Any], ours: Env, framework: FrameworkEnv) -> list[object]:
    """The container's `env`: the operator's variables, the framework's, then those of the template, which may therefore
    refer to the others as $(NAME). Of two variables with one name, one is kept. `ours` lacks what differs between the
    containers of a pod; it is added here."""
    own, template = {**ours, **container_environment(container)}, container.get("env")
    written: list[object] = template if isinstance(template, list) else []
    if job.is_guest:
        # training-operator's own variables go before what it does not know (`framework` before `own`).
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
    # Kubernetes expands $(NAME) in values: a `$` of ours means itself.
    return {"name": name, "value": str(value) if isinstance(value, Expanded) else value.replace("$", "$$")}
