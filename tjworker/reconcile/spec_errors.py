"""The report of an unusable part of the spec of a job that has begun: condition Failed, False, reason InvalidSpec.

Before the start InvalidSpec is in the condition Failed, too. The condition's status shows whether the job has ended.
Pure.
"""

from __future__ import annotations

from dataclasses import replace

from tjworker.api.model import TrainingJob
from tjworker.api.status import INVALID_SPEC, JobStatus
from tjworker.reconcile.conditions import set_condition
from tjworker.reconcile.plan import Event, Plan

SPEC_MENDED = "SpecMended"
GOES_ON = "; the job goes on with the last values that could be used, or the defaults, until this is mended"
NO_MORE_PODS = ", and makes no pods of {}"
MAX_MESSAGE = 1024
"""Characters: the limit of an event's note, and of a condition's message here."""


def note_errors(job: TrainingJob, status: JobStatus, at: str) -> JobStatus:
    """The status with the job's errors in the condition Failed, or with the note that they are over."""
    old = status.condition("Failed")
    if job.errors:
        words = errors_in_words(job)
        return set_condition(status, "Failed", False, INVALID_SPEC, words, now=at, generation=job.generation)
    if old is None or old.reason != INVALID_SPEC:
        return status
    mended = "the spec can be used again"
    return set_condition(status, "Failed", False, SPEC_MENDED, mended, now=at, generation=job.generation)


def errors_in_words(job: TrainingJob) -> str:
    """Field, value and rule of each error, then how the job goes on."""
    names = [role.name for role in job.roles if not role.makes_pods]
    more = GOES_ON + (NO_MORE_PODS.format(", ".join(names)) if names else "")
    # A long list of errors is cut, and not the end of the message.
    return f"{'; '.join(map(str, job.errors))[: MAX_MESSAGE - len(more)]}{more}"


def report_errors(job: TrainingJob, plan: Plan) -> Plan:
    """The plan with an event if the errors are new."""
    failed = None if plan.status is None else plan.status.condition("Failed")
    if failed is None or (failed.status, failed.reason) != ("False", INVALID_SPEC):
        return plan
    # An event for each version of the message: the condition shows only the last one.
    old = job.status.condition("Failed")
    if old is not None and (old.reason, old.message) == (failed.reason, failed.message):
        return plan
    return replace(plan, events=(*plan.events, Event("Warning", INVALID_SPEC, failed.message)))
