"""Report passes over a job that died with their worker process: out of memory, killed, over the hard time limit. Pure.

Without the condition Stalled, the job would show nothing of them. The work queue counts them and delays the key. The
plan of `report_died_passes` is written before a pass that may die, too. The step keeps the condition, and clears it in
the first pass after one that ended.
"""

from __future__ import annotations

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.status import JobStatus
from tjworker.api.timefmt import to_rfc3339
from tjworker.base import death_wait_seconds
from tjworker.reconcile.conditions import clear_condition, set_condition
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Event, Plan

DIED = "PassDied"
"""Reason of the condition Stalled."""


def mark_died_passes(p: Pass) -> Pass:
    # First of all steps, so that the condition is written whatever the others decide.
    if p.observed.died_passes:
        return p.with_status(_with_stalled(p.job, p.status, p.observed.died_passes, p.at))
    over = "passes over this job finish again"
    return p.with_status(clear_condition(p.status, "Stalled", "PassEnded", over, now=p.at, generation=p.job.generation))


def report_died_passes(job: TrainingJob | InvalidJob, died: int, now: float) -> Plan:
    """A plan with only the condition, and an event when it begins. Empty for a job that wants no pods."""
    if isinstance(job, InvalidJob) or job.status.ended or job.deleted_at is not None:
        return Plan()
    at = to_rfc3339(now)
    status = _with_stalled(job, job.status, died, at)
    if status == job.status:
        return Plan()
    begins = all(c.type != "Stalled" or c.status != "True" for c in job.status.conditions)
    events = (Event("Warning", DIED, _message(died)),) if begins else ()
    return Plan(status.model_copy(update={"last_reconcile_time": at}).summarised(), events=events)


def _with_stalled(job: TrainingJob, status: JobStatus, died: int, at: str) -> JobStatus:
    return set_condition(status, "Stalled", True, DIED, _message(died), now=at, generation=job.generation)


def _message(died: int) -> str:
    wait = death_wait_seconds(died + 1)
    return (
        f"the last {died} passes over this job died with their worker process: out of memory, killed, or over the hard"
        f" time limit (the worker's log says which); if this one dies too, the next try is in {wait} s. A smaller job"
        " or more memory for the workers may help; a change of its spec is tried at once"
    )
