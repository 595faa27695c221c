"""The objects that a job has in the cluster: which of them no role wants, and how an end deletes them. Pure.

A row of `CHILDREN` makes a kind of child known to `strays`, `clean_up`, `remain` and the orphan collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tjworker.api import labels
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.naming import service_name
from tjworker.api.observed import ENDED_PHASES, Observed, PodGroupRecord, PodRecord
from tjworker.api.ownership import own_pods, own_services, own_tensorboard
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, PODS, REPLICASETS, SERVICES
from tjworker.base import GroupResource
from tjworker.reconcile.gangs import GANGS, find_gang
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Write
from tjworker.reconcile.pod_group import delete_group
from tjworker.reconcile.policies.clean import Cleaning
from tjworker.reconcile.workloads import owner
from tjworker.reconcile.workloads.pod import delete_pod, delete_service, to_delete

_NO_ROLE = "its role is not in the spec"


@dataclass(frozen=True, slots=True)
class Child:
    resources: tuple[GroupResource, ...]
    strays: Callable[[Pass], Iterable[Write]]
    """Deletes of the job's own objects whose role is no longer in the spec."""
    clean_up: Callable[[Pass, Cleaning, str], Iterable[Write]]
    """(pass, cleaning that takes pods, why) -> deletes of what the end deletes, unless it is being deleted already."""
    remain: Callable[[Pass, Cleaning], bool]
    """(pass, cleaning that takes pods) -> whether an object that the end deletes exists, or could still be created."""
    goes_always: bool = False
    """True if every policy deletes it, so that it is also asked about a cleaning that takes no pods."""


def strays(p: Pass) -> list[Write]:
    """Deletes of all objects whose role is no longer in the spec."""
    return [w for child in CHILDREN for w in child.strays(p)]


def clean_up(p: Pass, cleaning: Cleaning, why: str) -> list[Write]:
    """Deletes of all objects that the end deletes and that are not being deleted yet."""
    return [w for child in _going(cleaning) for w in child.clean_up(p, cleaning, why)]


def remain(p: Pass, cleaning: Cleaning) -> bool:
    """True if an object that the end deletes still exists, or could still be created."""
    return any(child.remain(p, cleaning) for child in _going(cleaning))


def _going(cleaning: Cleaning) -> Iterator[Child]:
    return (child for child in CHILDREN if cleaning.takes_pods or child.goes_always)


def _is_deleted_at_end(cleaning: Cleaning, pod: PodRecord) -> bool:
    return cleaning.goes(pod.labels.get(labels.REPLICA_NAME, ""), pod.phase)


def _stray_pods(p: Pass) -> Iterator[Write]:
    known = {r.name for v in p.roles.values() for r in v.replicas}
    known |= {pod.name for v in p.roles.values() for pod in (*v.surplus, *v.others)}
    for pod in p.pods:
        if pod.name not in known and pod.owner_uid == p.job.uid and to_delete(pod):
            yield delete_pod(pod, _NO_ROLE)


def _clean_pods(p: Pass, cleaning: Cleaning, why: str) -> Iterator[Write]:
    # A released ReplicaSet or batch Job deletes its pods itself.
    left = owner.left_running(p.job, p.observed)
    for pod in p.pods:
        if _is_deleted_at_end(cleaning, pod) and to_delete(pod) and not owner.goes_by_itself(p.job, pod, left):
            yield delete_pod(pod, why)


def _stray_owners(p: Pass) -> Iterable[Write]:
    return owner.delete_owners(p.job, p.observed, set(p.roles), _NO_ROLE)


def _stray_services(p: Pass) -> Iterator[Write]:
    for service in own_services(p.job, p.observed):
        if service.labels.get(labels.REPLICA_NAME) not in p.roles and service.name != p.job.subdomain:
            yield delete_service(service, _NO_ROLE)


def _clean_services(p: Pass, cleaning: Cleaning, why: str) -> Iterator[Write]:
    stay = _staying(p, cleaning)
    for service in own_services(p.job, p.observed):
        if service.name not in stay:
            yield delete_service(service, why)


def _services_remain(p: Pass, cleaning: Cleaning) -> bool:
    stay = _staying(p, cleaning)
    # A TensorBoard's service has its own time.
    _, board = own_tensorboard(p.job, p.observed)
    return any(s.owner_uid == p.job.uid and s.name not in stay and s != board for s in p.observed.services)


def _going_groups(p: Pass, cleaning: Cleaning) -> list[tuple[GroupResource, PodGroupRecord]]:
    """The groups that the end deletes, without those that are being deleted."""
    # A group disappears with its last pod. No end waits for that, because the pods may stay.
    gang = find_gang(p.rules)
    if gang is None or (p.keeps_all and not cleaning.takes_pods):
        return []
    groups = p.observed.pod_groups.get(gang.resource, ())
    return [(gang.resource, g) for g in groups if g.owner_uid == p.job.uid and g.deleted_at is None]


def _staying(p: Pass, cleaning: Cleaning) -> set[str]:
    """Names of the services that stay: those of pods that stay."""
    pods = [pod for pod in p.pods if not _is_deleted_at_end(cleaning, pod)]
    # The single service of all pods stays while one of them runs.
    shared = {p.job.subdomain} if any(pod.phase not in ENDED_PHASES for pod in pods) else set()
    return {pod.name for pod in pods} | shared


CHILDREN: tuple[Child, ...] = (
    Child(
        (PODS,),
        _stray_pods,
        _clean_pods,
        remain=lambda p, cleaning: any(_is_deleted_at_end(cleaning, pod) for pod in p.pods),
    ),
    Child(
        (REPLICASETS, BATCH_JOBS),
        _stray_owners,
        clean_up=lambda p, _, why: owner.release(p, why),
        remain=lambda p, _: owner.unreleased(p.job, p.observed),
    ),
    Child((SERVICES,), _stray_services, _clean_services, _services_remain),
    Child(
        ALL_POD_GROUPS,
        strays=lambda p: (),
        clean_up=lambda p, cleaning, why: [
            delete_group(resource, g, why) for resource, g in _going_groups(p, cleaning)
        ],
        remain=lambda p, cleaning: bool(_going_groups(p, cleaning)),
        goes_always=True,
    ),
)


def service_names(job: TrainingJob | InvalidJob) -> list[str]:
    """Names of the services that the job may have at its end."""
    if not isinstance(job, TrainingJob) or job.subdomain:
        return [job.subdomain if isinstance(job, TrainingJob) else job.name.name]
    return [service_name(job.name.name, role.name, i) for role in job.roles for i in range(role.replicas)]


def delete_children(job: TrainingJob | InvalidJob, observed: Observed, why: str) -> list[Write]:
    """Deletes of all pods, services and groups of an ended job; [] if none is left, or all are being deleted."""
    groups = ((resource, group) for resource, records in observed.pod_groups.items() for group in records)
    return [
        *(delete_pod(pod, why) for pod in own_pods(job, observed) if to_delete(pod)),
        *(delete_service(service, why) for service in own_services(job, observed)),
        *(
            delete_group(resource, group, why)
            for resource, group in groups
            if group.owner_uid == job.uid and group.deleted_at is None
        ),
    ]


def collected(gang: str) -> tuple[GroupResource, ...]:
    """The resources in which the orphan collector looks if this gang scheduler is set."""
    chosen = GANGS[gang].resource if gang in GANGS else None
    every = (resource for child in CHILDREN for resource in child.resources)
    return tuple(resource for resource in every if resource not in ALL_POD_GROUPS or resource == chosen)
