"""Converts the EDL operator's TrainingJob to an AITrainingJob: pods replace its ReplicaSets and batch Job. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tjworker.api.kinds.batchsize import ANNOTATION_BATCH_SIZE
from tjworker.api.kinds.trainingjob import (
    ANNOTATION_CLEAN_POD_POLICY,
    ANNOTATION_ETCD_IMAGE,
    ANNOTATION_RESTART_LIMIT,
    WITHOUT_LIMIT,
)
from tjworker.api.model import Role, TrainingJob
from tjworker.base import Json, mapping
from tjworker.convert.known import Extra
from tjworker.convert.report import Left, Origins, Path

PSERVER_RESTARTS = 5
"""The restart limit of parameter servers whose job sets none: the default of TJ_RESTART_LIMIT."""
_INERT = ("mountpath", "nfsmount", "matrix")
_INERT_OF_A_ROLE = ("etcd-endpoint", "index_succeed", "replicaSpec")
_ROLES = ("master", "pserver", "trainer")


def special(raw: Json, job: TrainingJob) -> Extra:
    return Extra(
        replace(job, roles=tuple(_of_pods(role) for role in job.roles)),
        left=tuple(_left(mapping(raw.get("spec")), {role.name for role in job.roles})),
        notes=(
            "its pods are named <job>-<role>-<index>, and a lost pod is replaced under the same name; pods of"
            " ReplicaSets and of a batch Job had other names. The labels paddle-job* stay",
        ),
        acted_upon=frozenset(
            {ANNOTATION_RESTART_LIMIT, ANNOTATION_ETCD_IMAGE, ANNOTATION_CLEAN_POD_POLICY, ANNOTATION_BATCH_SIZE}
        ),
        origins=_origins(job),
    )


def _of_pods(role: Role) -> Role:
    if role.workload != "ReplicaSet":
        return role
    # The TrainingJob restarts a master without limit while the job runs, also after a success.
    if role.restart_limit == WITHOUT_LIMIT:
        return replace(role, restart_limit=None)
    # A TrainingJob fails when a parameter server has reached its limit.
    limit = PSERVER_RESTARTS if role.restart_limit is None else role.restart_limit
    return replace(role, restart_limit=limit, fail_policy="Any")


def _left(spec: Json, roles: set[str]) -> Iterator[Left]:
    inert = [(f"spec.{name}", spec[name]) for name in _INERT if name in spec]
    for role in _ROLES:
        inert += [
            (f"spec.{role}.{name}", spec[role][name]) for name in _INERT_OF_A_ROLE if name in mapping(spec.get(role))
        ]
    for path, value in inert:
        yield Left(path, value, "it has never had an effect", "leave it out")
    for role in _ROLES:
        if role in spec and role not in roles:
            why = f"a job of this mode (frame_work.type, local_job, is_nccl, fault_tolerant) has no {role}"
            yield Left(f"spec.{role}", spec[role], why, "leave it out, or add a role of that name to replicaSpecs")
    most = mapping(spec.get("pserver")).get("max-instance")
    # A maximum that equals the minimum loses nothing.
    if "pserver" in roles and most and most != mapping(spec["pserver"]).get("min-instance", 1):
        yield Left("spec.pserver.max-instance", most, "parameter servers are not scaled", "leave it out")
    name = mapping(spec.get("frame_work")).get("name")
    if name:
        yield Left(
            "spec.frame_work.name",
            name,
            "nothing reads it",
            "set frameworkType if the program reads that framework's variables (docs/frameworks)",
        )


def _origins(job: TrainingJob) -> Origins:
    origins: dict[Path, Path] = {
        ("spec", "faultTolerant"): ("spec", "fault_tolerant"),
        ("spec", "priority"): ("spec", "annotations", "priority"),
        ("spec", "schedulerName"): ("spec", "schedulerName"),
        ("spec", "timeLimit"): ("spec", "annotations", "walltime"),
        # Roles are fields of spec itself in this kind, so the map of roles has no old field of its own.
        ("spec", "replicaSpecs"): (),
    }
    for name in (role.name for role in job.roles):
        role, pod = ("spec", "replicaSpecs", name), ("spec", "replicaSpecs", name, "template", "spec")
        origins |= {
            role: ("spec", name),
            (*role, "replicas"): ("spec", name, "min-instance"),
            (*role, "maxReplicas"): ("spec", name, "max-instance"),
            (*pod, "containers", 0, "image"): ("spec", "image"),
            (*pod, "containers", 0, "command"): ("spec", name, "entrypoint"),
            (*pod, "containers", 0, "resources"): ("spec", name, "resources"),
            (*pod, "containers", 0, "volumeMounts"): ("spec", "VolumeMounts"),
            (*pod, "volumes"): ("spec", "volumes"),
            (*pod, "hostNetwork"): ("spec", "host_network"),
            (*pod, "tolerations"): ("spec", name, "tolerations"),
            (*pod, "nodeSelector"): ("spec", name, "node_selector"),
        }
    return origins
