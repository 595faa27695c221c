"""What cannot be done: a spec that cannot be used, a child that the API server will not take. Pure."""

from __future__ import annotations

from tjworker.api.model import FieldError, InvalidJob, TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.status import FAILED_CREATE, FAILED_DELETE
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile.conditions import get_condition, is_true, see_generation, set_condition
from tjworker.reconcile.ending import finish
from tjworker.reconcile.frameworks import framework_errors
from tjworker.reconcile.gangs import gang_errors
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Event, Plan
from tjworker.reconcile.rules import Rules

INVALID_SPEC = "InvalidSpec"
"""Reason of the condition Failed: True before the start, False while a job that runs waits for its spec to be
mended."""
MEND = "; the job has ended: mend its manifest, delete the job and apply it again"
"""What to do about a child that no later try can make. After the API server's words, however long these are."""
MAX_MESSAGE = 1024
"""Characters: the limit of an event's note."""


def refuse_spec(job: InvalidJob, at: str, *, has_pods: bool = False) -> Plan:
    """A spec that the schema let pass and that cannot be used. Before the start that is the job's end; a job that runs
    is left as it is until its spec is mended."""
    message = "; ".join(str(e) for e in job.errors)
    told = get_condition(job.status, "Failed")
    # The pods may go before the start time is written: then only what was told of them says that they were there.
    of_a_start = told is not None and (told.status, told.reason) == ("False", INVALID_SPEC)
    started = has_pods or bool(job.status.start_time or job.status.suspend_time) or of_a_start
    status = set_condition(job.status, "Failed", not started, INVALID_SPEC, message, now=at, generation=job.generation)
    if not started:
        status = status.model_copy(update={"phase": "Failed", "start_time": at, "completion_time": at})
    status = see_generation(status, job.generation).summarised()
    if status == job.status:
        return Plan()
    status = status.model_copy(update={"last_reconcile_time": at})
    events = (Event("Warning", INVALID_SPEC, message[:MAX_MESSAGE]),)
    return Plan(status, events=events, decisions=(f"refuse the spec: {message}",))


def refuse_namespace(job: TrainingJob | InvalidJob) -> InvalidJob:
    """A job in the operator's own namespace: its template could take the labels of the operator's Redis, the service
    account of its workers and the Secret with its passwords."""
    error = FieldError(
        "metadata.namespace",
        f"{job.name.namespace} is the operator's own namespace, in which it serves no jobs; create the job in another",
    )
    return InvalidJob.of(job, (error,))


def refuse_framework(job: TrainingJob | InvalidJob) -> TrainingJob | InvalidJob:
    """A job that its framework cannot run, such as one with two masters. One that has ended runs no more."""
    errors = () if isinstance(job, InvalidJob) or job.status.ended else framework_errors(job)
    return InvalidJob.of(job, errors) if errors else job


def refuse_gang(job: TrainingJob | InvalidJob, rules: Rules) -> TrainingJob | InvalidJob:
    """A job that asks its gang scheduler for what that cannot read. One that has ended asks no more."""
    errors = () if isinstance(job, InvalidJob) or job.status.ended else tuple(gang_errors(job, rules))
    return InvalidJob.of(job, errors) if errors else job


def refuse_child(job: TrainingJob, observed: Observed, now: float, rules: Rules, message: str) -> Plan:
    """The API server called a child invalid (422): the template is wrong, and trying again cannot help. The job
    ends."""
    if job.status.ended or job.status.ending is not None:
        return Plan()
    p = Pass.begin(job, observed, now, rules)
    return finish(p.ending("Failed", INVALID_SPEC, f"{message[: MAX_MESSAGE - len(MEND)]}{MEND}"), whole_view=False)


def report_create_failure(job: TrainingJob, now: float, message: str) -> Plan:
    """A child cannot be made for now (quota, admission, a foreign object of its name): the API server's own words in a
    condition, and an event when that begins. Nothing when they stand there already. A job all of whose replicas run
    stays Running, and says beside it what is missing."""
    return _report(job, FAILED_CREATE, message, now, runs=is_true(job.status, "Running"))


def report_delete_failure(job: TrainingJob, now: float, message: str) -> Plan:
    """Likewise of a child that may not go, or of the job itself after its TTL. One all of whose replicas run, and one
    that has ended, says it by the event alone."""
    if is_true(job.status, "Running") or job.status.ended:
        return Plan(events=(Event("Warning", FAILED_DELETE, message[:MAX_MESSAGE]),))
    return _report(job, FAILED_DELETE, message, now)


def _report(job: TrainingJob, reason: str, message: str, now: float, *, runs: bool = False) -> Plan:
    old = get_condition(job.status, "Running")
    status = set_condition(job.status, "Running", runs, reason, message, now=to_rfc3339(now), generation=job.generation)
    if status == job.status:
        return Plan()
    begins = old is None or old.reason != reason
    events = (Event("Warning", reason, message[:MAX_MESSAGE]),) if begins else ()
    return Plan(status.model_copy(update={"last_reconcile_time": to_rfc3339(now)}).summarised(), events=events)
