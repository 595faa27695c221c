"""The pod templates of a TrainingJob's master, parameter servers and trainers, for its ReplicaSets and its batch Job.

Pure; the spec has been validated. Names, ports, labels and commands are those of PaddlePaddle EDL's operator, because
scripts on clusters look for them.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tjworker.api.kinds.trainingjob.environment import environment
from tjworker.api.kinds.trainingjob.spec import Component, TrainingJobSpec
from tjworker.api.podgroups import GROUP_ANNOTATION
from tjworker.base import Json, mapping

ETCD_IMAGE = "quay.io/coreos/etcd:v3.5.21"
ROLE_LABELS: Mapping[str, str] = {
    "master": "paddle-job-master",
    "pserver": "paddle-job-pserver",
    "trainer": "paddle-job",
}
"""Label of a role's pods and of their ReplicaSet or Job. Its value is the name of the job."""

_COMMANDS: Mapping[str, tuple[str, str]] = {
    "master": ("start_master", "start_master"),
    "pserver": ("start_pserver", "start_new_pserver"),
    "trainer": ("start_trainer", "start_new_trainer"),
}
"""Default arguments of `paddle_k8s` by role: for a plain job, for a fault-tolerant job."""
# 4001 is the client port that etcd used before 2379; EDL's operator opens both.
_ETCD = (
    "etcd",
    "-name",
    "etcd0",
    "-advertise-client-urls",
    "http://$(POD_IP):2379,http://$(POD_IP):4001",
    "-listen-client-urls",
    "http://0.0.0.0:2379,http://0.0.0.0:4001",
    "-initial-advertise-peer-urls",
    "http://$(POD_IP):2380",
    "-listen-peer-urls",
    "http://0.0.0.0:2380",
    "-initial-cluster",
    "etcd0=http://$(POD_IP):2380",
    "-initial-cluster-state",
    "new",
)
_SCRATCH = "mount-path"
"""Volume behind `mountPath` when the job names none for it."""


@dataclass(frozen=True, slots=True)
class TemplateContext:
    """A job, for its templates."""

    job: str
    spec: TrainingJobSpec
    raw: Json
    """The spec as the user wrote it: fields of a pod's own types are copied from it."""
    trainers: int
    pservers: int
    etcd_image: str = ETCD_IMAGE
    """'': the master's pod has no etcd."""


def template(shape: TemplateContext, name: str, role: Component) -> Json:
    spec, raw = shape.spec, mapping(shape.raw.get(name))
    volumes, mounts = _volumes(shape)
    env = environment(shape.job, spec, role, shape.trainers, shape.pservers)
    main: dict[str, Any] = {
        "name": name,
        "image": spec.image,
        "command": command(name, role.entrypoint, spec.fault_tolerant),
        "env": env,
        "ports": ports(name, spec),
        "volumeMounts": mounts,
        "resources": raw.get("resources"),
        "livenessProbe": raw.get("liveness_probe"),
        "readinessProbe": raw.get("readiness_probe"),
        "lifecycle": {"preStop": {"exec": {"command": role.pre_stop_cmd}}} if role.pre_stop_cmd else None,
    }
    containers = [main]
    if name == "master" and shape.etcd_image:
        # With the same variables: the command of etcd refers to $(POD_IP).
        containers.append({"name": "etcd", "image": shape.etcd_image, "command": list(_ETCD), "env": env})
    secured = {"securityContext": shape.raw.get("securityContext")}
    # All roles have the same image, so the trainers' Secrets can pull it for the other roles.
    secrets = raw.get("imagePullSecrets") or mapping(shape.raw.get("trainer")).get("imagePullSecrets")
    pod: dict[str, Any] = {
        "containers": [_set({**container, **secured}) for container in containers],
        "securityContext": shape.raw.get("podSecurityContext"),
        # A ReplicaSet takes no other policy than Always; a trainer that has ended is the Job's to replace.
        "restartPolicy": "Never" if name == "trainer" else "Always",
        "volumes": volumes,
        "tolerations": raw.get("tolerations"),
        "nodeSelector": raw.get("node_selector"),
        "imagePullSecrets": secrets,
        "schedulerName": spec.annotations.scheduler or spec.scheduler_name,
        "terminationGracePeriodSeconds": role.grace_period_seconds,
    }
    if spec.host_network:
        # On the node's network the kubelet falls back from ClusterFirst to the node's resolver, which knows no
        # services.
        pod |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    metadata = {"labels": labels(shape, name), "annotations": _annotations(spec)}
    return {"metadata": _set(metadata), "spec": _set(pod)}


def command(name: str, entrypoint: str | None, fault_tolerant: bool) -> list[str]:
    """The command, split as in a shell: a quoted argument may have blanks. PaddlePaddle EDL split at each blank."""
    plain, tolerant = _COMMANDS[name]
    return shlex.split(entrypoint or "") or ["paddle_k8s", tolerant if fault_tolerant else plain]


def ports(name: str, spec: TrainingJobSpec) -> list[Json]:
    """The two ports of the master, or `jobport-<n>` of parameter servers and of trainers that other pods connect to."""
    if name == "master":
        return [{"name": "master-port", "containerPort": 8080}, {"name": "etcd-port", "containerPort": 2379}]
    own = range(spec.port, spec.port + spec.ports_num + spec.ports_num_for_sparse)
    trainers = range(spec.trainer_port or 0, (spec.trainer_port or 0) + (spec.trainer_ports_num or 0))
    # With is_nccl trainers listen on `port`; with frame_work.type they listen on `trainer_port`.
    if name == "pserver" or (spec.mode == "nccl2" and spec.frame_work is None):
        numbers = own
    else:
        numbers = trainers if spec.trainer_port and spec.mode != "local" else range(0)
    return [{"name": f"jobport-{number}", "containerPort": number} for number in numbers]


def labels(shape: TemplateContext, name: str) -> dict[str, str]:
    """The labels of the pods and of their ReplicaSet or batch Job."""
    priority = shape.spec.annotations.priority
    return {ROLE_LABELS[name]: shape.job, **({"priority": priority} if priority else {})}


def _annotations(spec: TrainingJobSpec) -> dict[str, str]:
    annotations = {
        GROUP_ANNOTATION: spec.pod_group_name,
        "usergroupid": spec.annotations.usergroupid,
        "userid": spec.annotations.userid,
    }
    return {key: value for key, value in annotations.items() if value}


def _volumes(shape: TemplateContext) -> tuple[list[Any], list[Any]]:
    """The job's volumes and mounts, with those for `mountPath`."""
    volumes, mounts = list(shape.raw.get("volumes") or ()), list(shape.raw.get("VolumeMounts") or ())
    path = shape.spec.mount_path
    if path:
        mounted = {mount["name"] for mount in mounts}
        # A volume that no mount names belongs to `mountPath`.
        free = next((volume["name"] for volume in volumes if volume["name"] not in mounted), None)
        if free is None:
            free = _SCRATCH
            volumes.append({"name": free, "emptyDir": {}})
        mounts.append({"name": free, "mountPath": path})
    return volumes, mounts


def _set(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without empty values, which would show in each pod."""
    return {key: value for key, value in fields.items() if value not in (None, "", [], {})}
