"""spec.suspend: the pods go, the job waits, its time limits stand still; and out of it again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.ownership import own_pods
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile import ending, outcome, phase
from tjworker.reconcile.attempts import raise_for_suspend
from tjworker.reconcile.conditions import clear_condition, set_condition
from tjworker.reconcile.plan import Plan
from tjworker.reconcile.policies.held import find_held, tell_held
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.views import view_roles


def suspend(
    job: TrainingJob, status: JobStatus, views: Mapping[str, RoleView], observed: Observed, now: float
) -> tuple[JobStatus, Mapping[str, RoleView], Plan | None]:
    """Into suspension, on in it, or out of it. The Plan is None when the job goes on (it has just been resumed)."""
    at = to_rfc3339(now)
    if job.suspend:
        if not status.suspend_time:
            status = raise_for_suspend(status.model_copy(update={"suspend_time": at}), views)
            views = view_roles(job, observed, status)
        message = "spec.suspend is true: the pods are deleted, the job waits"
        status = set_condition(status, "Suspended", True, "Suspended", message, now=at, generation=job.generation)
        status = clear_condition(status, "Running", "Suspended", message, now=at, generation=job.generation)
        held = find_held(own_pods(job, observed), now)
        status = tell_held(job, status, held, "Suspended", message, at)
        status = clear_condition(status, "Restarting", "Suspended", message, now=at, generation=job.generation)
        status = clear_condition(status, "Scaling", "Suspended", message, now=at, generation=job.generation)
        status = phase.with_scale_records(status, phase.scale_changes(job, job.status, at))
        status = outcome.numbers(job, status, views, live=False)
        writes = ending.clean_up(job, observed, "All", "the job is suspended")
        plan = outcome.finish_plan(job, status, "Suspended", at, writes=writes, message=message)
        return status, views, replace(plan, requeue_after_seconds=held.next_seconds)
    since = from_rfc3339(status.suspend_time) or now
    status = status.model_copy(
        update={"suspend_time": None, "suspended_seconds": status.suspended_seconds + max(0, int(now - since))}
    )
    status = clear_condition(status, "Suspended", "Resumed", "spec.suspend is false", now=at, generation=job.generation)
    return status, views, None
