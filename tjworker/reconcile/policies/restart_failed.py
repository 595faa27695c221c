"""Which failed pods start again, how far the restart reaches, and what it uses up. Pure.

A restart is data before it is action: this step only raises attempts in the status. The workload then finds pods of an
older attempt and replaces them, in this pass or, after a crash, in the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tjworker.api.model import RestartScope, TrainingJob
from tjworker.api.status import BACKOFF_LIMIT_EXCEEDED
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.failures import Diagnosis, describe, diagnose
from tjworker.reconcile.one_pass import FinalFailure, Pass
from tjworker.reconcile.policies.backoff import after_crash, turn_away, vanish, vanished_unseen
from tjworker.reconcile.policies.completion import job_verdict
from tjworker.reconcile.policies.restart import RESTART_POLICIES
from tjworker.reconcile.policies.restart.rule import Failed, Refusal
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.rests import ran_long

RESTART_LIMIT_REACHED = "RestartLimitReached"
"""Reason of an end: a role may not be restarted once more, by the operator or by a ReplicaSet."""


def restart_failed(p: Pass) -> Pass:
    """Look at each replica that has newly failed or that was deleted from outside: raise its attempt, or mark it failed
    for good. Safe to run twice: a replica whose attempt was raised is outdated from then on and is not looked at again.

    A failure that ends the job goes before any restart that the same moment would bring: what a user reads must not
    depend on which pod has the lower index."""
    draft = Draft(p.status)
    failed: list[Failed] = []
    replaced: list[str] = []
    # The pods of the others are replaced by their controllers: `controller_managed`.
    for view in (v for v in p.roles.values() if v.role.workload == "Pod"):
        for replica in _looked_at(p.job, view):
            failure = _failure(p, view, replica)
            if failure is not None:
                failed.append(failure)
            elif replica.state == "terminating" and _was_surplus(p.job, replica):
                # Scaled down, and up again before it was gone: no restart that counts.
                draft.raise_pod(replica)
            elif replica.state == "terminating" or (replica.state == "missing" and was_there(p.job, view, replica)):
                draft.raise_pod(replica)
                draft.count(replica.role, "user")
                if replica.pod is not None and replica.pod.never_started:
                    vanish(draft, replica, p)
                why = "it has vanished" if replica.pod is None else "it is being deleted"
                replaced.append(f"replace {replica.name}: {why}")
            elif vanished_unseen(p, view, replica):
                vanish(draft, replica, p)
    p = p.log_decisions(*replaced)
    if not failed:
        return p.with_new_attempts(draft.status()).log_restarts(replaced)
    failed.sort(key=lambda f: (f.diagnosis.failure.time, f.replica.name))
    # What a failure brings is told before what a deletion does.
    return _judge(p, failed, draft).log_restarts(replaced).add_failures([f.diagnosis.failure for f in failed])


def _looked_at(job: TrainingJob, view: RoleView) -> Iterator[Replica]:
    """Of a role that has never run only those that have, or had, a pod: the others, fifty thousand it may be, are yet
    to be made."""
    never_ran = not view.ran and job.status.phase != "Running"
    return (r for r in view.replicas if not r.final and not (never_ran and r.pod is None and r.index not in view.made))


def _failure(p: Pass, view: RoleView, replica: Replica) -> Failed | None:
    pod = replica.pod
    if pod is None:
        return None
    # Evicted or preempted, a pod runs out its grace and will then have failed. Waiting for that would make the outcome
    # depend on whether a pass happens in between.
    over = replica.state in ("failed", "lost") or (replica.state == "terminating" and bool(pod.disruption))
    faulty = bool(pod.gpu_fault) and replica.state in ("running", "scheduled")
    in_part = replica.state == "running" and view.has_failed(pod)
    if not over and not faulty and not in_part:
        return None
    diagnosis = diagnose(pod, p.at, p.job.main_container)
    if diagnosis.kind == "turned_away" and was_there(p.job, view, replica):
        # By a kubelet that was started anew and wrote an empty status: its program had run.
        diagnosis = replace(diagnosis, kind="disrupted")
    failed = Failed(p.job, view.role, replica, diagnosis, view.attempts)
    # A pod with a GPU at fault, or of which other containers run, is only taken away when its policy replaces it.
    return failed if over or RESTART_POLICIES[view.role.restart_policy](failed) is None else None


def final_failure(diagnosis: Diagnosis, why: str, reason: str = "") -> FinalFailure:
    """A job that ends because a node was lost has not failed by itself: it ends in NodeFail."""
    if diagnosis.kind == "node_lost":
        return FinalFailure(diagnosis.failure, why, "NodeLost", "NodeFail")
    return FinalFailure(diagnosis.failure, why, reason)


def was_there(job: TrainingJob, view: RoleView, replica: Replica) -> bool:
    """A job that was Running had a pod for each index below what was desired then; any other says which it has seen
    run."""
    if replica.index in view.ran:
        return True
    old = job.status.replica_statuses.get(replica.role)
    return job.status.phase == "Running" and old is not None and replica.index < old.desired


def _was_surplus(job: TrainingJob, replica: Replica) -> bool:
    """Until now the role was not to have this index."""
    old = job.status.replica_statuses.get(replica.role)
    return old is not None and replica.index >= old.desired


def _judge(p: Pass, failed: Sequence[Failed], draft: Draft) -> Pass:
    """First what cannot be restarted; and only if the job outlives that, the restarts."""
    final: list[tuple[Failed, Refusal]] = []
    retried: list[Failed] = []
    for one in failed:
        refusal = _refusal(one, draft)
        if refusal is not None:
            final.append((one, refusal))
        else:
            retried.append(one)
    restarted: list[str] = []
    if not _ends_the_job(p, [one for one, _ in final]):
        reached: set[str] = set()
        for one in (f for f in retried if f.role.name not in reached):
            refusal = _refusal(one, draft)
            if refusal is not None:
                final.append((one, refusal))
                continue
            restarted.append(f"{describe(one.diagnosis.failure)}; restart, scope {_scope(one)}")
            reached |= _restart(p, one, draft)
        final = [(one, refusal) for one, refusal in final if one.role.name not in reached]
    for one, _ in final:
        draft.fail(one.replica)
    if final and p.final is None:
        # Only a role that can fail explains why the job does.
        one, refusal = next(((f, r) for f, r in final if f.role.fail_policy != "None"), final[0])
        p = replace(p, final=final_failure(one.diagnosis, refusal.why, refusal.reason))
    for one, refusal in final:
        if p.job.backoff_ends and refusal.reason == BACKOFF_LIMIT_EXCEEDED:
            p = p.end_unless_failed("Failed", refusal.reason, f"{describe(one.diagnosis.failure)}; {refusal.why}")
    kept = [f"{describe(one.diagnosis.failure)}; it stays failed: {refusal.why}" for one, refusal in final]
    return p.with_new_attempts(draft.status()).log_decisions(*kept, *restarted).log_restarts(restarted)


def _restart(p: Pass, one: Failed, draft: Draft) -> set[str]:
    """The roles that begin anew with it."""
    draft.count(one.role.name, one.diagnosis.cause)
    if one.diagnosis.kind == "turned_away":
        turn_away(draft, one.replica, p)
        return set()
    scope = _scope(one)
    reached = {"Pod": set(), "Replica": {one.role.name}, "All": set(p.roles)}[scope]
    if scope == "Pod":
        draft.raise_pod(one.replica)
    else:
        draft.raise_roles(sorted(reached), whole_job=scope == "All")
    if one.diagnosis.cause == "application" and one.replica.pod is not None:
        crashes = draft.crash(one.replica, sorted(reached), anew=ran_long(one.replica.pod, p.job.main_container))
        if until := after_crash(crashes, p.now):
            draft.rest(one.replica, until, p.at)
    return reached


def _scope(one: Failed) -> RestartScope:
    """What a pod that never started has left undone concerns no other pod."""
    return "Pod" if one.diagnosis.kind == "turned_away" else one.role.restart_scope


def _ends_the_job(p: Pass, final: Sequence[Failed]) -> bool:
    if not final:
        return False
    marked = {one.replica.name for one in final}
    then = {
        name: replace(
            view,
            replicas=tuple(r._replace(state="failed", final=True) if r.name in marked else r for r in view.replicas),
        )
        for name, view in p.roles.items()
    }
    return job_verdict(p.job, then).verdict == "failed"


def _refusal(one: Failed, draft: Draft) -> Refusal | None:
    """Of the role's policy; or of a limit that holds for every policy. Only the application's failures use those up."""
    job, role = one.job, one.role
    if one.diagnosis.kind == "turned_away":
        return None  # it never started, so it does not start again
    refusal = RESTART_POLICIES[role.restart_policy](one)
    if refusal is not None or one.diagnosis.cause != "application":
        return refusal
    if role.restart_limit is not None and draft.application_restarts(role.name) >= role.restart_limit:
        return Refusal(f"restartLimit {role.restart_limit} of role {role.name} is used up", RESTART_LIMIT_REACHED)
    if job.backoff_limit is None or not job.counts_for_backoff(role.name):
        return None
    if draft.application_restarts(*job.batch_roles) >= job.backoff_limit:
        return Refusal(f"backoffLimit {job.backoff_limit} of the job is used up", BACKOFF_LIMIT_EXCEEDED)
    return None
