"""One RoleView a role, by how its pods are kept. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.ownership import own_pods
from tjworker.api.status import JobStatus
from tjworker.reconcile.replicas import RoleView, view_named
from tjworker.reconcile.seats import view_seated

Views = Mapping[str, RoleView]


def look_again(job: TrainingJob, observed: Observed, status: JobStatus, views: Views, seen: JobStatus) -> Views:
    """As a status shows the roles that has just been changed; `views` are those of the status `seen`. Most passes decide
    nothing, and to look at ten thousand pods four times takes a second."""
    same = (status.attempts, status.phase) == (seen.attempts, seen.phase)
    return views if same else view_roles(job, observed, status)


def view_roles(job: TrainingJob, observed: Observed, status: JobStatus) -> Views:
    """In the job's order of roles. Of the status, only attempts and phase are looked at."""
    own = own_pods(job, observed)
    direct = {p.name: p for p in own if p.owner_uid == job.uid}
    taken = {p.name for p in observed.pods if p.owner_uid != job.uid}
    return {
        role.name: view_named(job, role, direct, taken, status)
        if role.workload == "Pod"
        else view_seated(job, role, own, observed, status)
        for role in job.roles
    }
