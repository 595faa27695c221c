"""reconcile(job, observed, now, rules) -> Plan: decides what to do about a job. Pure: no I/O, no clock, the same input
gives the same Plan.

Level-triggered: it looks at the present state, never at events, so a missed, doubled or merged event changes nothing. A
new policy is a step: a function from Pass to Pass in a file of its own, and a row in STEPS.
"""

from __future__ import annotations

from dataclasses import replace

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.status import JobStatus
from tjworker.reconcile.attempts import record_successes
from tjworker.reconcile.confirm import need_confirmation
from tjworker.reconcile.converge import converge
from tjworker.reconcile.ending import after_the_end, finish, resume_end
from tjworker.reconcile.large_spec import report_large_spec
from tjworker.reconcile.one_pass import Pass, Step
from tjworker.reconcile.plan import Plan
from tjworker.reconcile.policies.annotations import end_by_annotation
from tjworker.reconcile.policies.completion import end_by_completion, end_by_failure
from tjworker.reconcile.policies.controller_managed import count_deaths
from tjworker.reconcile.policies.creating import replace_stuck_creating
from tjworker.reconcile.policies.died_passes import mark_died_passes
from tjworker.reconcile.policies.limits import end_by_deadline
from tjworker.reconcile.policies.restart_failed import restart_failed
from tjworker.reconcile.refusals import is_mended, judge, leave_refused, refuse_spec, wait_for_reference
from tjworker.reconcile.rules import Rules
from tjworker.reconcile.spec_errors import report_errors
from tjworker.reconcile.suspend import suspend

# In order of precedence: the first step that ends the job is the last one that runs. So a step that records something
# must come before the ends.
STEPS: tuple[Step, ...] = (
    mark_died_passes,
    resume_end,
    record_successes,
    end_by_annotation,
    end_by_completion,
    suspend,
    restart_failed,
    count_deaths,
    replace_stuck_creating,
    end_by_failure,
    end_by_deadline,
)


def reconcile(job: TrainingJob | InvalidJob, observed: Observed, now: float, rules: Rules) -> Plan:
    """What to do about this job now. `now`: Unix seconds."""
    if job.deleted_at is not None:
        # The garbage collector deletes the job's objects with it.
        return Plan()
    if job.status.ended and not job.status.refused:
        return after_the_end(job, observed, now)
    job = judge(job, observed, rules)
    if isinstance(job, InvalidJob) and job.missing is not None:
        return wait_for_reference(job, observed, now)
    if isinstance(job, InvalidJob):
        return refuse_spec(job, observed, now)
    if job.status.refused and not is_mended(job, observed):
        return leave_refused(Pass.begin(job, observed, now, rules), now)
    if job.status.refused or job.status.condition("Waiting") is not None:
        # The spec is mended, or the object that it names exists now: the job starts from the beginning.
        job = replace(job, status=JobStatus(snapshot=job.status.snapshot))
    return _reconcile_valid(job, observed, now, rules)


def _reconcile_valid(job: TrainingJob, observed: Observed, now: float, rules: Rules) -> Plan:
    begun = Pass.begin(job, observed, now, rules)
    return report_large_spec(job, observed, report_errors(job, need_confirmation(begun, _decide(begun))))


def _decide(p: Pass) -> Plan:
    for step in STEPS:
        p = step(p)
        if p.plan is not None:
            return p.to_plan(p.plan)
        if p.end is not None:
            return p.to_plan(finish(p))
    return p.to_plan(converge(p))
