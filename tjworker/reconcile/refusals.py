"""Specs that the operator cannot use, and children that the API server refuses. Pure.

A job that has begun goes on. With an unusable spec it keeps its last usable numbers and its defaults. A refused child
is tried again. A job that has not begun is Failed and creates nothing. It starts once an edit makes it usable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tjworker.api.kinds.base import MAX_ERRORS
from tjworker.api.model import FieldError, InvalidJob, TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.ownership import own_pods, own_workloads
from tjworker.api.status import FAILED_CREATE, FAILED_DELETE, INVALID_SPEC, JobStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile.addons import ADDONS, remove_addons, reports
from tjworker.reconcile.children import clean_up
from tjworker.reconcile.conditions import is_true, see_generation, set_condition
from tjworker.reconcile.ending import delete_after_ttl
from tjworker.reconcile.frameworks import framework_errors
from tjworker.reconcile.gangs import gang_errors
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Event, Plan
from tjworker.reconcile.policies.clean import Cleaning
from tjworker.reconcile.rules import Rules
from tjworker.reconcile.spec_errors import MAX_MESSAGE

MEND = "; the job has no pods: edit the job, and it starts"
"""Follows the API server's message when it refuses the first children of a job."""
MEND_EITHER = "; the job has no pods: edit the job or what it names, and it starts"
"""Likewise, for a job whose pod template is in another object."""


def has_begun(job: TrainingJob | InvalidJob, observed: Observed) -> bool:
    """True if the job has had a pod, or was accepted. From then on no edit of its spec stops it."""
    if own_pods(job, observed) or own_workloads(job, observed):
        return True
    # A job that was created suspended has no start time yet.
    return bool(job.status.start_time or job.status.suspend_time) and not job.status.refused


def take_up(job: TrainingJob | InvalidJob, observed: Observed) -> TrainingJob | InvalidJob:
    """The job as the passes see it: one that has begun goes on with the readable part of its spec."""
    if isinstance(job, TrainingJob) or job.rest is None or not has_begun(job, observed):
        return job
    return replace(job.rest, errors=job.errors)


# -- errors of a job that its parser does not find ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SpecCheck:
    errors: Callable[[TrainingJob, Rules], Iterable[FieldError]]
    keep: Callable[[TrainingJob, Rules], TrainingJob]
    """Returns the job as it can go on with these errors, if it has begun."""


def judge(job: TrainingJob | InvalidJob, observed: Observed, rules: Rules) -> TrainingJob | InvalidJob:
    """The job with its annotations applied and its errors listed; an InvalidJob if it must not begin."""
    begun = has_begun(job, observed)
    job = take_up(job, observed)
    if isinstance(job, InvalidJob):
        return job
    for check in _CHECKS:
        errors = tuple(check.errors(job, rules))
        if errors:
            job = replace(check.keep(job, rules), errors=(*job.errors, *errors)[:MAX_ERRORS])
    for addon in ADDONS:
        errors = tuple(addon.errors(job, rules)) if addon.annotation in job.annotations else ()
        if errors:
            unread = job.unread_annotations | {addon.annotation}
            job = replace(job, errors=(*job.errors, *errors)[:MAX_ERRORS], unread_annotations=unread)
            job = addon.keep(job, rules)
        elif addon.annotation in job.annotations:
            job = addon.apply(job, rules)
    job = reports.with_reports(job, rules.reports)
    return InvalidJob.of(job, job.errors) if job.errors and not begun else job


def _namespace_errors(job: TrainingJob, rules: Rules) -> Iterator[FieldError]:
    # A template there could use the labels of the operator's Redis, the service account of its workers, and the Secret
    # with its passwords.
    if job.name.namespace == rules.own_namespace:
        yield FieldError(
            "metadata.namespace",
            f"{job.name.namespace} is the operator's own namespace, in which it serves no jobs; create the job in"
            " another",
        )


def _keep_numbers(job: TrainingJob, rules: Rules) -> TrainingJob:
    # Mostly the framework refuses a number of replicas, or that the autoscaler changes it. So go back to the last
    # numbers, without autoscaling; if that does not help, create no new pods.
    kept = job.with_last_numbers()
    kept = replace(kept, roles=tuple(replace(r, edl_policy="Manual") if r.autoscaled else r for r in kept.roles))
    return job.without_new_pods() if framework_errors(kept) else kept


_CHECKS = (
    _SpecCheck(_namespace_errors, lambda job, _: job.without_new_pods()),
    _SpecCheck(lambda job, _: framework_errors(job), _keep_numbers),
    _SpecCheck(gang_errors, lambda job, _: replace(job, gang=replace(job.gang, unread=True))),
)


# -- before a job has begun --------------------------------------------------------------------------


def refuse_spec(job: InvalidJob, observed: Observed, now: float) -> Plan:
    """The plan for a spec that passed the schema, but cannot be used. The job is Failed until an edit repairs it, or
    until its ttlSecondsAfterFinished has passed. A job that has begun gets here only if not even its roles are
    readable. The error is then reported, and its pods stay."""
    message, at = "; ".join(map(str, job.errors)), to_rfc3339(now)
    old = job.status.condition("Failed")
    # The pods may vanish before the start time is written. Then only this condition shows that they existed.
    had_begun = old is not None and (old.status, old.reason) == ("False", INVALID_SPEC)
    if had_begun or has_begun(job, observed):
        status = set_condition(job.status, "Failed", False, INVALID_SPEC, message, now=at, generation=job.generation)
        return _report_refusal(job, see_generation(status, job.generation).summarised(), at)
    return _refuse(job, "" if job.for_good else "Spec", message, now)


WAIT_LEAST_SECONDS, WAIT_MOST_SECONDS = 1.0, 60.0
"""Bounds of the wait between two reads of an object that a job names."""


def wait_for_reference(job: InvalidJob, observed: Observed, now: float) -> Plan:
    """The plan for a job that names an object which does not exist yet. It creates nothing and refuses nothing: one
    `kubectl apply` may create the object a moment after the job. The next pass comes after as many seconds as the job
    has waited, within the two bounds above. A job that has begun keeps its pods meanwhile."""
    missing, at = job.missing, to_rfc3339(now)
    assert missing is not None  # noqa: S101  the caller has looked
    message = "; ".join(map(str, job.errors))
    before = JobStatus() if job.status.refused else job.status
    reason = missing.reason
    status = set_condition(before, "Waiting", True, reason, message, now=at, generation=job.generation)
    status = see_generation(status, job.generation).summarised()
    since = next(c.last_transition_time for c in status.conditions if c.type == "Waiting")
    waited = max(0.0, now - (from_rfc3339(since) or now))
    plan = Plan(requeue_after_seconds=min(max(waited, WAIT_LEAST_SECONDS), WAIT_MOST_SECONDS))
    if status == job.status:
        return plan
    status = status.model_copy(update={"last_reconcile_time": at})
    events = () if is_true(job.status, "Waiting") else (Event("Warning", reason, message),)
    return replace(plan, status=status, events=events, decisions=(f"wait: {message}",))


def refuse_child(
    job: TrainingJob, observed: Observed, now: float, message: str, *, made_pods: bool
) -> tuple[Plan, bool]:
    """(plan after the API server called a child invalid (422), whether the job goes on).

    `made_pods`: this pass has created pods. A job that has had a pod goes on, reports the error and tries the child
    again: its other pods are fine. A job that never had one is Failed until it is edited."""
    goes_on = made_pods or bool(own_pods(job, observed) or own_workloads(job, observed)) or _had_pods(job.status)
    if job.status.ending is not None or (job.status.ended and not job.status.refused):
        return Plan(), goes_on
    if goes_on:
        return report_create_failure(job, now, message), True
    advice = MEND_EITHER if job.status.snapshot else MEND
    return _refuse(job, "Create", f"{message[: MAX_MESSAGE - len(advice)]}{advice}", now), False


def _had_pods(status: JobStatus) -> bool:
    attempts = status.attempts.roles.values()
    ran = any(role.all or role.pods or role.completed or role.failed or role.ran for role in attempts)
    return bool(ran or status.start_running_time or status.restarts or status.failures)


def _refuse(job: TrainingJob | InvalidJob, refused: Literal["", "Spec", "Create"], message: str, now: float) -> Plan:
    at = to_rfc3339(now)
    before = job.status if job.status.refused else JobStatus()
    status = set_condition(before, "Failed", True, INVALID_SPEC, message, now=at, generation=job.generation)
    ended = {"phase": "Failed", "refused": refused, "completion_time": before.completion_time or at}
    ended |= {"refused_annotations": _digest(job) if refused == "Create" else ""}
    plan = _report_refusal(job, see_generation(status.model_copy(update=ended), job.generation).summarised(), at)
    if plan.status is not None and job.ttl_seconds_after_finished is not None:
        return replace(plan, requeue_after_seconds=float(job.ttl_seconds_after_finished))
    deletion, seconds_left = delete_after_ttl(job, now)
    return deletion or replace(plan, requeue_after_seconds=seconds_left)


def _report_refusal(job: TrainingJob | InvalidJob, status: JobStatus, at: str) -> Plan:
    if status == job.status:
        return Plan()
    failed = status.condition("Failed")
    message = failed.message if failed else ""
    events: tuple[Event, ...] = ()
    if failed != job.status.condition("Failed"):
        events = (Event("Warning", INVALID_SPEC, message),)
    status = status.model_copy(update={"last_reconcile_time": at})
    return Plan(status, events=events, decisions=(f"refuse the spec: {message}",) if events else ())


def is_mended(job: TrainingJob, observed: Observed) -> bool:
    """True if a refused job may begin now."""
    status = job.status
    # '': an older CRD has pruned the field.
    seen = status.refused_annotations in ("", _digest(job))
    edited = status.observed_generation != job.generation or not seen
    # A child that the API server refused is tried again only after an edit. The refusal of a cluster's policy, which
    # can change from outside, is another error (`kube.errors`).
    return status.refused == "Spec" or edited or has_begun(job, observed)


def _digest(job: TrainingJob | InvalidJob) -> str:
    """A digest of what a user can edit without a new generation of the job: annotations, and the object it names."""
    if isinstance(job, InvalidJob):
        return ""
    annotations = json.dumps(sorted(job.annotations.items()))
    named = str(job.status.snapshot.get("resourceVersion", ""))
    return hashlib.sha256(f"{annotations}{named}".encode()).hexdigest()[:16]


def leave_refused(p: Pass, now: float) -> Plan:
    """The plan for a job whose first pods were refused: delete its other objects, such as services, those of addons, or
    a PodGroup, which holds room."""
    deletion, seconds_left = delete_after_ttl(p.job, now)
    why = "the job has been refused before it began"
    writes = (*clean_up(p, Cleaning("All"), why), *remove_addons(p.job, p.observed, why))
    return deletion or Plan(writes=writes, requeue_after_seconds=seconds_left)


# -- while it goes on --------------------------------------------------------------------------------


def report_create_failure(job: TrainingJob, now: float, message: str) -> Plan:
    """The plan after a child could not be created for now: quota, admission, an object of another owner with its name.
    The condition Running gets the API server's message, with an event if its reason is new. Empty if the condition has
    the message already."""
    # With every replica running, the condition stays True and names the missing object.
    return _report(job, FAILED_CREATE, message, now, runs=is_true(job.status, "Running"))


def report_delete_failure(job: TrainingJob, now: float, message: str) -> Plan:
    """Likewise after a delete of a child, or of the job itself after its TTL, was refused. A job that runs or has ended
    gets only the event."""
    if is_true(job.status, "Running") or job.status.ended:
        return Plan(events=(Event("Warning", FAILED_DELETE, message[:MAX_MESSAGE]),))
    return _report(job, FAILED_DELETE, message, now)


def _report(job: TrainingJob, reason: str, message: str, now: float, *, runs: bool = False) -> Plan:
    old = job.status.condition("Running")
    status = set_condition(job.status, "Running", runs, reason, message, now=to_rfc3339(now), generation=job.generation)
    if status == job.status:
        return Plan()
    begins = old is None or old.reason != reason
    events = (Event("Warning", reason, message[:MAX_MESSAGE]),) if begins else ()
    return Plan(status.model_copy(update={"last_reconcile_time": to_rfc3339(now)}).summarised(), events=events)
