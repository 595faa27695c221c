"""Selects a job's own objects among the observed ones. Pure. Code that counts, changes or deletes objects asks here.

The job itself controls an object of its own, or a ReplicaSet or batch Job that the job controls does. A label alone
proves nothing: objects of an earlier job of the same name have the operator's labels, and so may a copied template.
"""

from __future__ import annotations

from tjworker.api import labels
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.naming import pod_name, tensorboard_name
from tjworker.api.observed import Observed, PodRecord, ServiceRecord, WorkloadRecord
from tjworker.api.resources import BATCH_JOBS, REPLICASETS
from tjworker.base import GroupResource


def own_workloads(
    job: TrainingJob | InvalidJob, observed: Observed
) -> tuple[tuple[GroupResource, WorkloadRecord], ...]:
    """ReplicaSets and batch Jobs controlled by this very job, each with its resource."""
    found = ((REPLICASETS, observed.replicasets), (BATCH_JOBS, observed.jobs))
    return tuple((resource, w) for resource, owners in found for w in owners if w.owner_uid == job.uid)


def own_pods(job: TrainingJob | InvalidJob, observed: Observed) -> tuple[PodRecord, ...]:
    """The job's pods, by name, without its TensorBoard, which is not a replica. A pod whose labels name another job is
    not this job's, even if a controller of this job has adopted it."""
    # By UID: a ReplicaSet of the same name may belong to an earlier job that garbage collection has not reached yet.
    workloads = {w.uid for _, w in own_workloads(job, observed)}
    mine = (
        p
        for p in observed.pods
        # A ReplicaSet or batch Job adopts every pod that its selector matches, also a pod of an earlier job.
        if p.owner_uid == job.uid or (p.owner_uid in workloads and p.labels.get(labels.JOB_UID) == job.uid)
    )
    board = _tensorboard(job)
    # Its end would count as a failure of the job.
    mine = (p for p in mine if p.name != board)
    # Sorted, because equal observations must give equal plans.
    return tuple(sorted(mine, key=lambda p: p.name))


def own_services(job: TrainingJob | InvalidJob, observed: Observed) -> tuple[ServiceRecord, ...]:
    """The job's services, by name, without those that are being deleted and that of its TensorBoard."""
    board = _tensorboard(job)
    # A service that is being deleted does not count: the name is free soon, and the next pass makes a new one.
    mine = (s for s in observed.services if s.owner_uid == job.uid and s.deleted_at is None and s.name != board)
    return tuple(sorted(mine, key=lambda s: s.name))


def own_tensorboard(job: TrainingJob | InvalidJob, observed: Observed) -> tuple[PodRecord | None, ServiceRecord | None]:
    """(the pod, the service) of the job's TensorBoard."""
    board = _tensorboard(job)
    pod = next((p for p in observed.pods if p.name == board and p.owner_uid == job.uid), None)
    service = next((s for s in observed.services if s.name == board and s.owner_uid == job.uid), None)
    return pod, service


def _tensorboard(job: TrainingJob | InvalidJob) -> str:
    """The name of the job's TensorBoard; '' if a role has this name, so that the job can have none."""
    name = tensorboard_name(job.name.name)
    roles = job.roles if isinstance(job, TrainingJob) else ()
    return "" if any(pod_name(job.name.name, role.name, 0) == name for role in roles) else name
