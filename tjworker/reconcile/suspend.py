"""spec.suspend: delete the pods, pause the time limits and wait; and the way back. Pure."""

from __future__ import annotations

from dataclasses import replace

from tjworker.api.status import FULL_SIZE
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile import outcome, phase
from tjworker.reconcile.addons import ADDONS, remove_addons
from tjworker.reconcile.attempts import raise_for_suspend
from tjworker.reconcile.children import clean_up
from tjworker.reconcile.conditions import clear_condition, drop_condition, set_condition
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.policies.clean import Cleaning
from tjworker.reconcile.policies.stuck_deletion import find_stuck_deletions, report_deletions


def suspend(p: Pass) -> Pass:
    """Suspend the job, keep it suspended, or resume it. The first two end the pass."""
    if p.job.suspend:
        return _stay_suspended(p)
    if not p.status.suspend_time:
        return p
    seconds = 0
    if p.job.status.start_time:
        # Without a start time this is the first start, and no limit counts yet.
        since = from_rfc3339(p.status.suspend_time) or p.now
        seconds = p.status.suspended_seconds + max(0, int(p.now - since))
    # Pods that are created now have the full time for creating.
    resumed: dict[str, object] = {"suspend_time": None, "suspended_seconds": seconds, "creating_since": {}}
    status = p.status.model_copy(update=resumed)
    message = f"{p.job.suspend_field} is false"
    status = clear_condition(status, "Suspended", "Resumed", message, now=p.at, generation=p.job.generation)
    return p.with_status(status)


def _stay_suspended(p: Pass) -> Pass:
    job, at = p.job, p.at
    if not p.status.suspend_time:
        p = p.with_new_attempts(raise_for_suspend(p.status.model_copy(update={"suspend_time": at}), p.roles))
    message = f"{job.suspend_field} is true: the pods are deleted, the job waits"
    status = set_condition(p.status, "Suspended", True, "Suspended", message, now=at, generation=job.generation)
    for type_ in ("Running", "Restarting", "Scaling", *(c for addon in ADDONS for c in addon.conditions)):
        status = clear_condition(status, type_, "Suspended", message, now=at, generation=job.generation)
    status = drop_condition(status, FULL_SIZE)
    stuck = find_stuck_deletions(p.pods, p.now)
    why = "the job is suspended"
    writes = [*clean_up(p, Cleaning("All"), why), *remove_addons(job, p.observed, why)]
    status = report_deletions(job, status, stuck, writes, "Suspended", message, at)
    status = phase.with_scale_records(status, phase.scale_changes(job, job.status, at))
    status = outcome.numbers(job, status, p.roles, live=False)
    plan = outcome.finish_plan(job, status, "Suspended", at, writes=writes, message=message)
    return p._replace(plan=replace(plan, requeue_after_seconds=stuck.next_seconds))
