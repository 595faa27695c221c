"""The end of a job: decided once, written into the status, then carried out until the deleted pods are gone. Pure.

The status changes twice, so that a crash in between does no harm. First it gets `ending` and the phase Terminating.
When nothing is left to clean up, it gets the end phase. An ended job never runs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.needs import ALL_PODS, ChildNow
from tjworker.api.observed import Observed
from tjworker.api.ownership import own_workloads
from tjworker.api.resources import ALL_POD_GROUPS, BATCH_JOBS, SERVICES
from tjworker.api.status import ALL_RUN, FAILED_DELETE, FULL_SIZE, POD_NOT_GONE, ConditionType, Ending, JobStatus, Phase
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile import outcome
from tjworker.reconcile.addons import ADDONS
from tjworker.reconcile.attempts import forget_rests
from tjworker.reconcile.children import clean_up, delete_children, remain, service_names
from tjworker.reconcile.conditions import clear_condition, drop_condition, see_generation, set_condition
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Delete, Patch, Plan, Write
from tjworker.reconcile.policies.clean import cleaning_at
from tjworker.reconcile.policies.stuck_deletion import find_stuck_deletions, report_deletions


def resume_end(p: Pass) -> Pass:
    """Continue an end that an earlier pass decided, before any other step."""
    return p if p.status.ending is None else p._replace(end=p.status.ending)


def finish(p: Pass) -> Plan:
    """The plan that carries out the end `p.end`: delete what the policy deletes, and set the end phase when all of it
    is gone."""
    job, end, at = p.job, p.end, p.at
    assert end is not None  # noqa: S101  the caller has looked
    cleaning = cleaning_at(job, end.phase, end.reason, p.rules.autoclean)
    status = forget_rests(p.status.model_copy(update={"ending": end}))
    for type_ in ("Restarting", "Scaling", "Suspended", "Stalled"):
        status = clear_condition(status, type_, end.reason, end.message, now=at, generation=job.generation)
    status = drop_condition(_close_running(job, status, end, at), FULL_SIZE)
    status = _with_numbers(p, status)
    stuck = find_stuck_deletions(p.pods, p.now)
    writes = clean_up(p, cleaning, f"the job ends in {end.phase}, and {cleaning} takes it")
    status = report_deletions(job, status, stuck, writes, end.reason, end.message, at)
    if remain(p, cleaning):
        message = f"the job ends in {end.phase}: {end.message}"
        plan = outcome.finish_plan(job, status, "Terminating", at, writes=writes, message=message)
        return replace(plan, requeue_after_seconds=0 if _are_unanswered(writes) else stuck.next_seconds)
    how: ConditionType = "Succeeded" if end.phase == "Succeed" else "Failed"
    status = set_condition(status, how, True, end.reason, end.message, now=at, generation=job.generation)
    if how == "Succeeded" and status.condition("Failed") is not None:
        # The condition may say that the job goes on with an unusable spec. That is over.
        status = set_condition(status, "Failed", False, end.reason, end.message, now=at, generation=job.generation)
    released = cleaning.takes_pods and bool(own_workloads(job, p.observed))
    status = outcome.close_numbers(job, status, end.phase)
    status = status.model_copy(update={"completion_time": at, "released": released})
    ttl = job.ttl_seconds_after_finished
    waits = [None if ttl is None else float(ttl)]
    for addon in ADDONS:
        status, seconds = addon.at_the_end(p, status)
        waits.append(seconds)
    plan = outcome.finish_plan(job, status, end.phase, at, writes=(), message=end.message)
    return replace(plan, requeue_after_seconds=min((w for w in waits if w is not None), default=None))


def _with_numbers(p: Pass, status: JobStatus) -> JobStatus:
    counted = outcome.numbers(p.job, status, p.roles, live=False)
    if not p.job.is_guest or p.job.status.ending is None:
        return counted
    # A job of another operator's kind keeps the numbers with which its end was decided, while its pods are deleted.
    return counted.model_copy(update={"replica_statuses": p.job.status.replica_statuses})


def _are_unanswered(writes: Sequence[Write]) -> bool:
    """True if no controller reacts to these writes, so that no event queues the next pass: the echo of an own write
    queues nothing."""
    # The batch Job may have ended, or have no pods.
    if any(isinstance(write, Patch) and write.resource == BATCH_JOBS for write in writes):
        return True
    # A group without any other deletion: its pods stay, and the group stays with them.
    return bool(writes) and all(write.resource in ALL_POD_GROUPS for write in writes)


def _close_running(job: TrainingJob, status: JobStatus, end: Ending, at: str) -> JobStatus:
    """The condition Running of a job that ends. Also written for a job that ended before its first status."""
    old = status.condition("Running")
    if old is not None and old.status == "False" and old.reason in (end.reason, POD_NOT_GONE, FAILED_DELETE):
        return status
    waits = old is not None and (old.status == "False" or job.runs is not None)
    # Keep a reason that says more than the phase, such as no room on any node or a missing image. It may explain the
    # end.
    explains = waits and old is not None and old.reason not in (*get_args(Phase), ALL_RUN)
    message = f"{end.message}; before that {old.reason}: {old.message}" if old is not None and explains else end.message
    return set_condition(status, "Running", False, end.reason, message, now=at, generation=job.generation)


def after_the_end(job: TrainingJob | InvalidJob, observed: Observed, now: float) -> Plan:
    """The plan for an ended job: delete it when its ttlSecondsAfterFinished has passed, and what its addons have left
    when their time has. A valid ttl counts even if the rest of the spec is invalid."""
    plan = see_the_spec(job)
    deletion, seconds_left = delete_after_ttl(job, now)
    if deletion is not None and job.ttl_keeps_job:
        # The projection keeps no children of an ended job.
        needs = {ALL_PODS, *(ChildNow(SERVICES, name) for name in service_names(job))}
        if not needs <= observed.confirmed:
            return Plan(needs=tuple(sorted(needs)))
        if gone := delete_children(job, observed, "; ".join(deletion.decisions)):
            return replace(deletion, status=plan.status, writes=tuple(gone))
    elif deletion is not None:
        return deletion
    left = (addon.after_the_end(job, observed, now) for addon in ADDONS)
    rest = next((of_addon for of_addon in left if of_addon is not None), None)
    if plan.empty:
        plan = rest or plan
    elif rest is not None:
        # This pass only writes that the spec was seen. The next one looks after what addons have left.
        seconds_left = 0
    waits = [seconds for seconds in (seconds_left, plan.requeue_after_seconds) if seconds is not None]
    return replace(plan, requeue_after_seconds=min(waits, default=None))


def delete_after_ttl(job: TrainingJob | InvalidJob, now: float) -> tuple[Plan | None, float | None]:
    """(plan that deletes the job, or None if that is not due; seconds until it is due, or None)."""
    ttl, completed = job.ttl_seconds_after_finished, from_rfc3339(job.status.completion_time)
    if ttl is None or completed is None:
        return None, None
    seconds_left = completed + ttl - now
    if seconds_left > 0:
        return None, seconds_left
    why = f"ttlSecondsAfterFinished {ttl} has passed since {job.status.completion_time}"
    return Plan(writes=(Delete(job.name.resource, job.name.name, job.uid, why=why),), decisions=(why,)), None


def see_the_spec(job: TrainingJob | InvalidJob) -> Plan:
    """The plan after an edit of an ended job's spec, such as a second apply of its manifest: write the new generation
    into the status, and do nothing else."""
    # Otherwise `kubectl wait --for=condition=Succeeded` would wait for ever.
    if job.status.observed_generation in (0, job.generation):
        return Plan()
    return Plan(see_generation(job.status, job.generation))
