"""Which of the observed objects are a job's own. Pure; whoever counts, moves or deletes a job's objects asks here.

An object is controlled by the job itself, or a pod by a ReplicaSet or batch Job that the job controls. Not those of a job of
the same name before it, nor a stranger's with our labels (who copies a template copies them): a label alone proves nothing.
"""

from __future__ import annotations

from tjworker.api import labels
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed, PodRecord, ServiceRecord, WorkloadRecord


def own_workloads(job: TrainingJob, observed: Observed) -> tuple[tuple[str, WorkloadRecord], ...]:
    """ReplicaSets and batch Jobs controlled by this very job, each with its resource."""
    found = (("replicasets", observed.replicasets), ("jobs", observed.jobs))
    return tuple((resource, w) for resource, owners in found for w in owners if w.owner_uid == job.uid)


def own_pods(job: TrainingJob, observed: Observed) -> tuple[PodRecord, ...]:
    """By name. Nor is a pod the job's whose labels say that it is another job's, though a keeper of this one has adopted it."""
    keepers = {w.uid for _, w in own_workloads(job, observed)}
    mine = (
        p
        for p in observed.pods
        if p.owner_uid == job.uid or (p.owner_uid in keepers and p.labels.get(labels.JOB_UID) == job.uid)
    )
    return tuple(sorted(mine, key=lambda p: p.name))


def own_services(job: TrainingJob, observed: Observed) -> tuple[ServiceRecord, ...]:
    """By name; those of which nobody has begun the deletion."""
    mine = (s for s in observed.services if s.owner_uid == job.uid and not s.deleted_at)
    return tuple(sorted(mine, key=lambda s: s.name))
