"""How a job that has begun says that part of its spec cannot be used: condition Failed, False, reason InvalidSpec.

`Failed` is where a reader looks for InvalidSpec before the start, too; its status says whether that is the job's end.
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
    old = status.condition("Failed")
    if job.errors:
        words = errors_in_words(job)
        return set_condition(status, "Failed", False, INVALID_SPEC, words, now=at, generation=job.generation)
    if old is None or old.reason != INVALID_SPEC:
        return status
    mended = "the spec can be used again"
    return set_condition(status, "Failed", False, SPEC_MENDED, mended, now=at, generation=job.generation)


def errors_in_words(job: TrainingJob) -> str:
    """Field, value and rule of each; then what holds meanwhile, which a long list must not push out."""
    names = [role.name for role in job.roles if not role.makes_pods]
    more = GOES_ON + (NO_MORE_PODS.format(", ".join(names)) if names else "")
    return f"{'; '.join(map(str, job.errors))[: MAX_MESSAGE - len(more)]}{more}"


def tell_errors(job: TrainingJob, plan: Plan) -> Plan:
    """An event when that begins, or other fields are wrong."""
    said = None if plan.status is None else plan.status.condition("Failed")
    if said is None or (said.status, said.reason) != ("False", INVALID_SPEC):
        return plan
    old = job.status.condition("Failed")
    if old is not None and (old.reason, old.message) == (said.reason, said.message):
        return plan
    return replace(plan, events=(*plan.events, Event("Warning", INVALID_SPEC, said.message)))
