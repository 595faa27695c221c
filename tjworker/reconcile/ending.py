"""An end: decided once, written down, then carried out until the pods that go are gone. Pure.

Two steps, so that a crash in between resumes: `status.ending` with phase Terminating, and when nothing is left to clean
the end phase itself. What has ended is never taken up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args

from tjworker.api.model import CleanPodPolicy, InvalidJob, TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.ownership import own_pods, own_services, own_workloads
from tjworker.api.status import POD_NOT_GONE, Ending, JobStatus, Phase
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile import outcome
from tjworker.reconcile.conditions import clear_condition, get_condition, see_generation, set_condition
from tjworker.reconcile.plan import Delete, Patch, Plan, Write
from tjworker.reconcile.policies.clean import goes
from tjworker.reconcile.policies.held import find_held, tell_held
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.workloads.owner import goes_by_itself, left_running, release, unreleased
from tjworker.reconcile.workloads.pod import delete_pod, to_delete


def carry_out(
    job: TrainingJob,
    status: JobStatus,
    end: Ending,
    views: Mapping[str, RoleView],
    observed: Observed,
    now: float,
    *,
    whole_view: bool = True,
) -> Plan:
    """Towards `end`: clean up, and when all that goes is gone, the end phase. `end` is only looked at when none has been
    decided before. Without a `whole_view` (this very pass has made objects that it does not show) the end phase waits."""
    at = to_rfc3339(now)
    end = status.ending or end
    status = status.model_copy(update={"ending": end})
    for type_ in ("Running", "Restarting", "Scaling", "Suspended"):
        status = clear_condition(status, type_, end.reason, end.message, now=at, generation=job.generation)
    status = _waits_no_more(job, status, end, at)
    status = outcome.numbers(job, status, views, live=False)
    held = find_held(own_pods(job, observed), now)
    status = tell_held(job, status, held, end.reason, end.message, at)
    if not whole_view or _remains(job, observed, job.clean_pod_policy):
        why = f"the job ends in {end.phase}, cleanPodPolicy is {job.clean_pod_policy}"
        writes = clean_up(job, observed, job.clean_pod_policy, why)
        message = f"the job ends in {end.phase}: {end.message}"
        plan = outcome.finish_plan(job, status, "Terminating", at, writes=writes, message=message)
        # What follows a patch of a batch Job that has ended, or has no pods, is nothing: no controller answers, and the echo of
        # an own write queues nothing. So the pass that sees it is asked for.
        unanswered = any(isinstance(w, Patch) and w.resource == "jobs" for w in writes)
        return replace(plan, requeue_after_seconds=0 if unanswered else held.next_seconds)
    succeeded = end.phase == "Succeed"
    status = set_condition(
        status, "Succeeded" if succeeded else "Failed", True, end.reason, end.message, now=at, generation=job.generation
    )
    released = job.clean_pod_policy != "None" and bool(own_workloads(job, observed))
    status = status.model_copy(update={"completion_time": at, "released": released})
    plan = outcome.finish_plan(job, status, end.phase, at, writes=(), message=end.message)
    if job.ttl_seconds_after_finished is None:
        return plan
    return replace(plan, requeue_after_seconds=float(job.ttl_seconds_after_finished))


def _waits_no_more(job: TrainingJob, status: JobStatus, end: Ending, at: str) -> JobStatus:
    """A job that had not come to run, or not again, no longer waits for what its condition Running names. Where that told more
    than the phase does (no node has room, an image is not there), it stays to be read: it may be why the job ends."""
    old = get_condition(status, "Running")
    if old is None or old.reason in (end.reason, POD_NOT_GONE):
        return status
    message = (
        end.message if old.reason in get_args(Phase) else f"{end.message}; before that {old.reason}: {old.message}"
    )
    return set_condition(status, "Running", False, end.reason, message, now=at, generation=job.generation)


def clean_up(job: TrainingJob, observed: Observed, policy: CleanPodPolicy, why: str) -> list[Write]:
    """Deletes of what goes and is not on its way yet. A service goes with its pod. What a ReplicaSet or batch Job keeps is
    released: its controller takes the pods that live, if it ever takes one; the others are deleted as any."""
    pods, left = own_pods(job, observed), left_running(job, observed)
    kept = {p.name for p in pods if not goes(policy, p)}
    writes: list[Write] = [
        delete_pod(p, why)
        for p in pods
        if p.name not in kept and to_delete(p) and not goes_by_itself(job, policy, p, left)
    ]
    if policy == "None":
        return writes
    writes += release(job, observed, why)
    writes += [Delete("services", s.name, s.uid, why=why) for s in own_services(job, observed) if s.name not in kept]
    return writes


def _remains(job: TrainingJob, observed: Observed, policy: CleanPodPolicy) -> bool:
    """Something that goes is still there, on its way or not, or could still come."""
    if policy == "None":
        return False
    pods = own_pods(job, observed)
    kept = {p.name for p in pods if not goes(policy, p)}
    return (
        any(p.name not in kept for p in pods)
        or unreleased(job, observed)
        or any(s.owner_uid == job.uid and s.name not in kept for s in observed.services)
    )


def with_autoclean(job: TrainingJob, *, autoclean: bool) -> TrainingJob:
    """Without autoclean nothing of a job that ReplicaSets and a batch Job keep is taken away at its end (seed 000)."""
    if autoclean or all(r.workload == "Pod" for r in job.roles):
        return job
    return replace(job, clean_pod_policy="None")


def after_the_end(job: TrainingJob, now: float) -> Plan:
    """An ended job wants nothing more, until its ttlSecondsAfterFinished has passed: then it is deleted itself."""
    plan = see_the_spec(job)
    completed = from_rfc3339(job.status.completion_time)
    if job.ttl_seconds_after_finished is None or completed is None:
        return plan
    left = completed + job.ttl_seconds_after_finished - now
    if left > 0:
        return replace(plan, requeue_after_seconds=left)
    why = f"ttlSecondsAfterFinished {job.ttl_seconds_after_finished} has passed since {job.status.completion_time}"
    return Plan(writes=(Delete(job.name.plural, job.name.name, job.uid, why=why),), decisions=(why,))


def see_the_spec(job: TrainingJob | InvalidJob) -> Plan:
    """Editing the spec of an ended job (applying its manifest again is enough) changes nothing but the generation that its
    status says it has seen. Unsaid, `kubectl wait --for=condition=Succeeded` would wait for ever."""
    if job.status.observed_generation in (0, job.generation):
        return Plan()
    return Plan(see_generation(job.status, job.generation))
