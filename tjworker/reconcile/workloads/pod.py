"""The workload Pod: the operator itself creates and replaces a pod with a fixed name for each index. Pure.

Safe to run twice: fixed names make a second create harmless (409), and UIDs a second delete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tjworker.api import labels
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed, PodRecord, ServiceRecord
from tjworker.api.ownership import own_services
from tjworker.api.resources import PODS, SERVICES
from tjworker.reconcile.frameworks import has_services, replica_ports, role_ports
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Delete, Patch, Write
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import child_labels, pod_body, service_body


def shape(p: Pass, view: RoleView, may_create: bool) -> Iterator[Write]:
    yield from _pod_deletes(view)
    yield from _service_deletes(p.job, view, p.observed)
    yield from _relabel(p.job, view)
    # Deletes first: the pass may have no room for all writes, and a role over its size holds room that others need.
    if may_create:
        yield from _creates(p, view)


def _pod_deletes(view: RoleView) -> Iterator[Delete]:
    for pod in view.surplus:
        if to_delete(pod):
            yield delete_pod(pod, f"index is not below replicas {view.role.replicas}")
    for replica in view.replicas:
        if replica.state == "outdated" and replica.pod is not None and to_delete(replica.pod):
            yield delete_pod(replica.pod, f"attempt {replica.attempt} replaces it")
        elif _failed_with_its_node(replica) and replica.pod is not None and to_delete(replica.pod):
            yield delete_pod(replica.pod, replica.pod.lost)


def _failed_with_its_node(replica: Replica) -> bool:
    # If the node comes back, its processes must not go on for a job that counts them as finally failed.
    pod = replica.pod
    return replica.final and pod is not None and bool(pod.lost) and pod.phase in ("Pending", "Running")


def to_delete(pod: PodRecord) -> bool:
    """True if the pod must be deleted, or deleted again because no kubelet can confirm the first deletion."""
    # A deletion on a lost node that had grace 0 already waits for a finalizer. Another one does not help.
    return pod.deleted_at is None or (bool(pod.lost) and pod.deletion_grace_seconds > 0)


def delete_pod(pod: PodRecord, why: str) -> Delete:
    """The delete of a pod; without a grace period if its node is lost."""
    grace_seconds = 0 if pod.lost else None
    return Delete(PODS, pod.name, pod.uid, grace_seconds, why, pod.rv, pod.owner_uid)


def delete_service(service: ServiceRecord, why: str) -> Delete:
    return Delete(SERVICES, service.name, service.uid, None, why, service.rv, service.owner_uid)


def label_pod(pod: PodRecord, changed: Mapping[str, str], why: str) -> Patch:
    return Patch(
        PODS, pod.name, {"metadata": {"uid": pod.uid, "resourceVersion": str(pod.rv), "labels": dict(changed)}}, why
    )


def _service_deletes(job: TrainingJob, view: RoleView, observed: Observed) -> Iterator[Delete]:
    wanted = {r.name: r for r in view.replicas}
    common = role_ports(job, view.role) if job.host_ports is None else None
    for service in own_services(job, observed):
        if service.labels.get(labels.REPLICA_NAME) != view.role.name:
            continue
        replica = wanted.get(service.name)
        if replica is None:
            yield delete_service(service, f"index is not below replicas {view.role.replicas}")
            continue
        wanted_ports = replica_ports(job, view.role, replica.index) if common is None else common
        ports = [port.number for port in wanted_ports]
        if replica.state == "missing" and sorted(service.ports) != sorted(ports):
            # An edited template applies to pods that are created from now on, and to their services. The service of an
            # existing pod stays.
            yield delete_service(service, f"ports of the template are {ports} now")


def _relabel(job: TrainingJob, view: RoleView) -> Iterator[Patch]:
    """Restore the operator's labels where they were removed or changed. A replica's service and `tj logs` find the pod
    by them. A pod whose attempt is unreadable counts as one of the first attempt (`pod_attempt`)."""
    for replica in view.replicas:
        pod = replica.pod
        if pod is None or replica.state not in ("pending", "scheduled", "running"):
            continue
        wanted = child_labels(job, view.role, replica.index, replica.attempt)
        if wanted.items() <= pod.labels.items():
            continue
        lost = {name: value for name, value in wanted.items() if pod.labels.get(name) != value}
        yield label_pod(pod, lost, f"the operator's labels are missing or changed: {', '.join(sorted(lost))}")


def _creates(p: Pass, view: RoleView) -> Iterator[Create]:
    # Lazy: a pass builds only the bodies that it writes, however many pods are missing.
    job = p.job
    role_env = None
    serves = has_services(job, view.role)
    services = {s.name for s in p.observed.services}
    for replica in view.replicas:
        if replica.final:
            continue
        if serves and replica.name not in services and needs_service(replica):
            yield Create(SERVICES, replica.name, service_body(job, view.role, replica.index))
        if replica.state == "missing":
            role_env = role_env or role_environment(job)
            yield Create(PODS, replica.name, pod_body(job, view.role, replica.index, replica.attempt, role_env, p.gang))


def needs_service(replica: Replica) -> bool:
    """True if other pods may look for the replica's pod now or soon."""
    return replica.state not in ("succeeded", "failed", "blocked")
