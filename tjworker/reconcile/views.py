"""One RoleView a role, by who makes its pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed, PodRecord
from tjworker.api.status import JobStatus
from tjworker.reconcile.replicas import RoleView, view_named
from tjworker.reconcile.slots import view_slots

Views = Mapping[str, RoleView]


def view_roles(job: TrainingJob, observed: Observed, own: Iterable[PodRecord], status: JobStatus) -> Views:
    """In the job's order of roles. `own`: every pod of the job (`own_pods`). Of the status, only attempts and phase are
    looked at."""
    direct = {p.name: p for p in own if p.owner_uid == job.uid}
    taken = {p.name for p in observed.pods if p.owner_uid != job.uid}
    return {
        role.name: view_named(job, role, direct, taken, status)
        if role.workload == "Pod"
        else view_slots(job, role, own, observed, status)
        for role in job.roles
    }
