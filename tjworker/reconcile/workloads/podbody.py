"""The bodies of a replica's pod and service: the user's template and the operator's additions. Pure.

Never changes the template in place. With the owner reference, Kubernetes' garbage collector deletes the objects with
the job. A label holds the job's UID, so that a selection of the job's objects has none of an earlier job.
"""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api import labels
from tjworker.api.containers import with_environment
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import job_labels, pod_labels, pod_name, role_labels, service_name
from tjworker.api.podgroups import pod_group_of
from tjworker.base import JsonDict, mapping
from tjworker.reconcile.frameworks import find_framework, replica_ports, role_ports
from tjworker.reconcile.gangs.gang import Membership
from tjworker.reconcile.workloads.environment import Env, list_env, replica_environment
from tjworker.reconcile.workloads.files import add_files, file_annotations


def owner_reference(job: TrainingJob) -> JsonDict:
    return {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "name": job.name.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def child_metadata(job: TrainingJob, name: str) -> JsonDict:
    """The metadata of an object that belongs to no role."""
    own = job_labels(job)
    return {
        "name": name,
        "namespace": job.name.namespace,
        "labels": {**labels.labels_for_children(job), **own, **labels.of_guest(job, own)},
        "ownerReferences": [owner_reference(job)],
    }


def child_labels(job: TrainingJob, role: Role, index: int, attempt: int) -> dict[str, str]:
    own = pod_labels(job, role.name, index, attempt) | _master_label(job, role, index)
    return own | labels.of_guest(job, own)


def _master_label(job: TrainingJob, role: Role, index: int | None) -> dict[str, str]:
    return {labels.JOB_ROLE: "master"} if find_framework(job).is_master(job, role, index) else {}


def pod_body(
    job: TrainingJob, role: Role, index: int, attempt: int, role_env: Mapping[str, str], gang: Membership | None = None
) -> JsonDict:
    """The body of a replica's pod. `role_env`: `environment.role_environment(job)`, computed once per pass."""
    env: Env = {**replica_environment(job, role, index, attempt), **role_env}
    # The operator restarts replicas itself, by policy and with its own count. The kubelet must not.
    template = pod_template(job, role, env, index=index, restart_policy="Never", gang=gang)
    metadata, name = template["metadata"], pod_name(job.name.name, role.name, index)
    if job.subdomain:
        # DNS does not resolve a pod of a subdomain without a hostname.
        template["spec"].setdefault("hostname", name)
    if job.guest_labels is not None and job.guest_labels.index_annotation:
        # The downward API of the other operator's pods reads their index from here.
        own = {job.guest_labels.index_annotation: str(index)}
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), **own}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.name.namespace,
            **metadata,
            "labels": {**metadata["labels"], **child_labels(job, role, index, attempt)},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": template["spec"],
    }


def pod_template(
    job: TrainingJob, role: Role, env: Env, *, index: int | None, restart_policy: str, gang: Membership | None
) -> JsonDict:
    """The role's template with the additions for all its pods: environment, scheduler, priority class, restartPolicy,
    the labels of `role_labels`, and those labels and annotations of the job that the template does not set."""
    meta = mapping(role.template.get("metadata"))
    framework = find_framework(job)
    spec = dict(mapping(with_environment(role.template, framework.settings(job)).get("spec")))
    defaults, files = framework.environment(job, role, index), framework.files(job, role)
    _add_default_port(job, role, spec)
    _use_own_ports(job, role, index, spec)
    add_files(spec, files)
    for kind in ("initContainers", "containers"):
        if spec.get(kind):
            spec[kind] = [{**c, "env": list_env(job, c, env, defaults)} for c in spec[kind]]
    spec["restartPolicy"] = restart_policy
    if job.scheduler_name and not spec.get("schedulerName"):
        spec["schedulerName"] = job.scheduler_name
    if (priority := (job.gang.priority_class if gang else "") or job.priority_class) and not spec.get(
        "priorityClassName"
    ):
        spec["priorityClassName"] = priority
    # By default a pod on the host network asks the node's resolver, which does not know the Services of the replicas.
    if spec.get("hostNetwork") and not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirstWithHostNet"
    user_labels = {**labels.labels_for_children(job), **mapping(meta.get("labels"))}
    if job.priority:
        user_labels.setdefault("priority", job.priority)
    annotations = {
        **labels.annotations_for_children(job),
        **mapping(meta.get("annotations")),
        **file_annotations(files),
    }
    # Ours replace those of the template: a pod with another job's labels would count as that job's.
    ours = {**role_labels(job, role.name), **_master_label(job, role, index)}
    metadata = {"labels": {**user_labels, **ours}, **({"annotations": annotations} if annotations else {})}
    if gang is not None and not role.helper:
        _join(gang, metadata, spec)
    return {"metadata": metadata, "spec": spec}


def _join(gang: Membership, metadata: JsonDict, spec: JsonDict) -> None:
    if gang.scheduler_name and not spec.get("schedulerName"):
        spec["schedulerName"] = gang.scheduler_name
    if group := pod_group_of(metadata, spec) or gang.group:
        gang.gang.join(metadata, spec, group)


def _add_default_port(job: TrainingJob, role: Role, spec: JsonDict) -> None:
    """Add the framework's port if the template has no port that counts."""
    framework, every = find_framework(job), spec.get("containers")
    added = framework.added_port(role)
    if added is None or not every:
        return
    chosen = next((i for i, c in enumerate(every) if c.get("name") == framework.default_container), 0)
    port = {"name": added.name, "containerPort": added.number}
    with_port = {**every[chosen], "ports": [*(every[chosen].get("ports") or ()), port]}
    spec["containers"] = [*every[:chosen], with_port, *every[chosen + 1 :]]


def _use_own_ports(job: TrainingJob, role: Role, index: int | None, spec: JsonDict) -> None:
    """Give a pod on the host network its own number for each port by which other pods find it."""
    # As a hostPort, so that the scheduler keeps the pod off a node where another pod has that port.
    if job.host_ports is None or index is None:
        return
    own = {p.number: of.number for p, of in zip(role_ports(job, role), replica_ports(job, role, index), strict=True)}
    spec["containers"] = [
        {**c, "ports": [_on_host(port, own) for port in c.get("ports") or ()]} for c in spec["containers"]
    ]


def _on_host(port: JsonDict, own: Mapping[int, int]) -> JsonDict:
    number = own.get(port.get("containerPort", 0))
    return port if number is None else {**port, "containerPort": number, "hostPort": number}


def service_body(job: TrainingJob, role: Role, index: int) -> JsonDict:
    """The headless service of one replica, with the pod's name, so that `<job>-<role>-<index>.<namespace>` resolves to
    the pod. Also before the pod is ready: replicas look for each other while they start."""
    own = {**role_labels(job, role.name), labels.REPLICA_INDEX: str(index)}
    ports = [{"name": p.name, "port": p.number, "targetPort": p.number} for p in replica_ports(job, role, index)]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": service_name(job.name.name, role.name, index),
            "namespace": job.name.namespace,
            "labels": {**labels.labels_for_children(job), **own, **labels.of_guest(job, own)},
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": own,
            **({"ports": ports} if ports else {}),
        },
    }
