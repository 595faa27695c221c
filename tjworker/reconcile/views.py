"""The RoleView of each role: one for pods of the operator, another for pods of a controller. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed, PodRecord
from tjworker.api.status import JobStatus
from tjworker.reconcile.replicas import RoleView, view_named
from tjworker.reconcile.slots import view_slots

Views = Mapping[str, RoleView]


def view_roles(job: TrainingJob, observed: Observed, own: Iterable[PodRecord], status: JobStatus) -> Views:
    """Role -> view, in the job's order of roles. `own`: every pod of the job (`own_pods`)."""
    # `Pass.with_new_attempts` relies on this: of the changes that steps make to the status, only those of attempts and
    # phase change a view.
    direct = {p.name: p for p in own if p.owner_uid == job.uid}
    taken = {p.name for p in observed.pods if p.owner_uid != job.uid}
    return {
        role.name: view_named(job, role, direct, taken, status)
        if role.workload == "Pod"
        else view_slots(job, role, own, observed, status)
        for role in job.roles
    }
