"""An end: decided once, written down, then carried out until the pods that go are gone. Pure.

Two steps, so that a crash in between resumes: `status.ending` with phase Terminating, and when nothing is left to clean
the end phase itself. What has ended is never taken up again.
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
from tjworker.reconcile.addons import tensorboard
from tjworker.reconcile.attempts import forget_rests
from tjworker.reconcile.children import clean_up, delete_children, remain, service_names
from tjworker.reconcile.conditions import clear_condition, drop_condition, see_generation, set_condition
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Delete, Patch, Plan, Write
from tjworker.reconcile.policies.clean import cleaning_at
from tjworker.reconcile.policies.stuck_deletion import find_stuck_deletions, report_deletions


def resume_end(p: Pass) -> Pass:
    """An end that an earlier pass has decided goes before everything else."""
    return p if p.status.ending is None else replace(p, end=p.status.ending)


def finish(p: Pass, *, whole_view: bool = True) -> Plan:
    """Towards the end `p.end`: clean up, and when all that goes is gone, the end phase. Without a `whole_view` (this
    very pass has made objects that it does not show) the end phase waits."""
    job, end, at = p.job, p.end, p.at
    assert end is not None  # noqa: S101  the caller has looked
    cleaning = cleaning_at(job, end.phase, end.reason, p.rules.autoclean)
    status = forget_rests(p.status.model_copy(update={"ending": end}))
    for type_ in ("Restarting", "Scaling", "Suspended", "Stalled"):
        status = clear_condition(status, type_, end.reason, end.message, now=at, generation=job.generation)
    status = drop_condition(_waits_no_more(job, status, end, at), FULL_SIZE)
    status = _numbers(p, status)
    stuck = find_stuck_deletions(p.pods, p.now)
    writes = clean_up(p, cleaning, f"the job ends in {end.phase}, and {cleaning} takes it")
    status = report_deletions(job, status, stuck, writes, end.reason, end.message, at)
    if not whole_view or remain(p, cleaning):
        message = f"the job ends in {end.phase}: {end.message}"
        plan = outcome.finish_plan(job, status, "Terminating", at, writes=writes, message=message)
        return replace(plan, requeue_after_seconds=0 if _are_unanswered(writes) else stuck.next_seconds)
    how: ConditionType = "Succeeded" if end.phase == "Succeed" else "Failed"
    status = set_condition(status, how, True, end.reason, end.message, now=at, generation=job.generation)
    if how == "Succeeded" and status.condition("Failed") is not None:
        # It may say that the job goes on with a spec that cannot be used, which is over.
        status = set_condition(status, "Failed", False, end.reason, end.message, now=at, generation=job.generation)
    released = cleaning.takes_pods and bool(own_workloads(job, p.observed))
    board = tensorboard.at_the_end(job, p.observed, p.now)
    status = outcome.close_numbers(job, status, end.phase)
    status = status.model_copy(update={"completion_time": at, "released": released, "tensorboard_until": board})
    plan = outcome.finish_plan(job, status, end.phase, at, writes=(), message=end.message)
    ttl, until = job.ttl_seconds_after_finished, from_rfc3339(board)
    waits = (None if ttl is None else float(ttl), None if until is None else max(0.0, until - p.now))
    return replace(plan, requeue_after_seconds=min((w for w in waits if w is not None), default=None))


def _numbers(p: Pass, status: JobStatus) -> JobStatus:
    """Of a job of another operator's kind, the numbers of each role stay those of the verdict while its pods go."""
    counted = outcome.numbers(p.job, status, p.roles, live=False)
    if not p.job.is_guest or p.job.status.ending is None:
        return counted
    return counted.model_copy(update={"replica_statuses": p.job.status.replica_statuses})


def _are_unanswered(writes: Sequence[Write]) -> bool:
    """No controller answers a patch of a batch Job that has ended or has no pods, nor the deletion of a group, where
    nothing else goes: its pods stay, and hold it. The echo of an own write queues nothing, so the pass that sees it is
    asked for."""
    if any(isinstance(write, Patch) and write.resource == BATCH_JOBS for write in writes):
        return True
    return bool(writes) and all(write.resource in ALL_POD_GROUPS for write in writes)


def _waits_no_more(job: TrainingJob, status: JobStatus, end: Ending, at: str) -> JobStatus:
    """A job no longer waits for what its condition Running names. Where that told more than the phase does (no node has
    room, an image is not there), it stays to be read: it may be why the job ends. A job that came to its end before
    anything was told of it reads as one of which it was."""
    old = status.condition("Running")
    if old is not None and old.status == "False" and old.reason in (end.reason, POD_NOT_GONE, FAILED_DELETE):
        return status
    waits = old is not None and (old.status == "False" or job.runs is not None)
    told = waits and old is not None and old.reason not in (*get_args(Phase), ALL_RUN)
    message = f"{end.message}; before that {old.reason}: {old.message}" if old is not None and told else end.message
    return set_condition(status, "Running", False, end.reason, message, now=at, generation=job.generation)


def after_the_end(job: TrainingJob | InvalidJob, observed: Observed, now: float) -> Plan:
    """An ended job wants nothing more, until its ttlSecondsAfterFinished has passed: then it is deleted itself; and
    that of its TensorBoard, which goes then. Whatever else of the spec cannot be read, a ttl that can be counts."""
    plan = see_the_spec(job)
    deletion, left = delete_after_ttl(job, now)
    if deletion is not None and job.ttl_keeps_job:
        # The projection keeps no children of an ended job.
        needs = {ALL_PODS, *(ChildNow(SERVICES, name) for name in service_names(job))}
        if not needs <= observed.confirmed:
            return Plan(needs=tuple(sorted(needs)))
        if gone := delete_children(job, observed, "; ".join(deletion.decisions)):
            return replace(deletion, status=plan.status, writes=tuple(gone))
    elif deletion is not None:
        return deletion
    if plan.empty:
        plan = tensorboard.after_the_end(job, observed, now) or plan
    elif job.status.tensorboard_until:
        left = 0
    waits = [seconds for seconds in (left, plan.requeue_after_seconds) if seconds is not None]
    return replace(plan, requeue_after_seconds=min(waits, default=None))


def delete_after_ttl(job: TrainingJob | InvalidJob, now: float) -> tuple[Plan | None, float | None]:
    """The deletion of the job itself, once it is due; else the seconds until then, None where it never is."""
    ttl, completed = job.ttl_seconds_after_finished, from_rfc3339(job.status.completion_time)
    if ttl is None or completed is None:
        return None, None
    left = completed + ttl - now
    if left > 0:
        return None, left
    why = f"ttlSecondsAfterFinished {ttl} has passed since {job.status.completion_time}"
    return Plan(writes=(Delete(job.name.resource, job.name.name, job.uid, why=why),), decisions=(why,)), None


def see_the_spec(job: TrainingJob | InvalidJob) -> Plan:
    """Editing the spec of an ended job (applying its manifest again is enough) changes nothing but the generation that
    its status says it has seen. Unsaid, `kubectl wait --for=condition=Succeeded` would wait for ever."""
    if job.status.observed_generation in (0, job.generation):
        return Plan()
    return Plan(see_generation(job.status, job.generation))
