"""One RoleView a role, by how its pods are kept. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.status import JobStatus
from tjworker.reconcile.replicas import RoleView, own_pods, view_named
from tjworker.reconcile.seats import view_seated


def view_roles(job: TrainingJob, observed: Observed, status: JobStatus) -> Mapping[str, RoleView]:
    """In the job's order of roles."""
    own = own_pods(job, observed)
    direct = {p.name: p for p in own if p.owner_uid == job.uid}
    taken = {p.name for p in observed.pods if p.owner_uid != job.uid}
    return {
        role.name: view_named(job, role, direct, taken, status) if role.workload == "Pod"
        else view_seated(job, role, own, observed, status)
        for role in job.roles
    }
