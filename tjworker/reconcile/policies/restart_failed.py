"""Which failed pods are restarted, with which scope, and against which limit they count. Pure.

This step only raises attempts in the status. The workload then finds pods of an older attempt and replaces them: in
this pass or, after a crash, in the next.
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
from tjworker.reconcile.policies.restart.rule import FailedReplica, RestartRefusal
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.rests import ran_long

RESTART_LIMIT_REACHED = "RestartLimitReached"
"""Reason of an end: the role's limit forbids another restart, by the operator or by a ReplicaSet."""


def restart_failed(p: Pass) -> Pass:
    """For each replica that has newly failed, or whose pod was deleted from outside: raise its attempt, or mark it
    finally failed. Safe to run twice: a replica whose attempt was raised is outdated from then on."""
    draft = Draft(p.status)
    failed: list[FailedReplica] = []
    replaced: list[str] = []
    # Controllers replace the pods of the other roles: `controller_managed`.
    for view in (v for v in p.roles.values() if v.role.workload == "Pod"):
        for replica in _candidates(p.job, view):
            failure = _find_failure(p, view, replica)
            if failure is not None:
                failed.append(failure)
            elif replica.state == "terminating" and _was_surplus(p.job, replica):
                # Scaled down, and up again before the pod was gone: not a restart.
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
    # The first one is the likely cause: when a rank dies, its peers fail in their collectives a moment later.
    failed.sort(key=lambda f: (f.diagnosis.failure.time, f.replica.name))
    # `_judge_failures` logs the restarts for failures, which must come before those for deletions.
    return _judge_failures(p, failed, draft).log_restarts(replaced).add_failures([f.diagnosis.failure for f in failed])


def _candidates(job: TrainingJob, view: RoleView) -> Iterator[Replica]:
    """The replicas that may have failed."""
    # Skip those that never had a pod: a role that has never run may have fifty thousand of them.
    never_ran = not view.ran and job.status.phase != "Running"
    return (r for r in view.replicas if not r.final and not (never_ran and r.pod is None and r.index not in view.made))


def _find_failure(p: Pass, view: RoleView, replica: Replica) -> FailedReplica | None:
    pod = replica.pod
    if pod is None:
        return None
    # An evicted or preempted pod fails after its grace period. Count it now: otherwise the outcome would depend on
    # whether a pass happens in between.
    over = replica.state in ("failed", "lost") or (replica.state == "terminating" and bool(pod.disruption))
    faulty = bool(pod.gpu_fault) and replica.state in ("running", "scheduled")
    in_part = replica.state == "running" and view.has_failed(pod)
    if not over and not faulty and not in_part:
        return None
    diagnosis = diagnose(pod, p.at, p.job.main_container)
    if diagnosis.kind == "turned_away" and was_there(p.job, view, replica):
        # The program had run: its kubelet was restarted, rejected the pod and replaced its status.
        diagnosis = replace(diagnosis, kind="disrupted")
    failed = FailedReplica(p.job, view.role, replica, diagnosis, view.attempts)
    # A pod with a faulty GPU, or whose other containers run, is only deleted if its policy replaces it.
    return failed if over or RESTART_POLICIES[view.role.restart_policy](failed) is None else None


def final_failure(diagnosis: Diagnosis, why: str, reason: str = "") -> FinalFailure:
    """The final failure for this diagnosis. `reason`: of the job's end, if a limit forbids the restart."""
    # A job that ends because a node was lost has not failed by itself.
    if diagnosis.kind == "node_lost":
        return FinalFailure(diagnosis.failure, why, "NodeLost", "NodeFail")
    return FinalFailure(diagnosis.failure, why, reason)


def was_there(job: TrainingJob, view: RoleView, replica: Replica) -> bool:
    """True if the replica's pod has run in this attempt."""
    # A job that was Running had a pod for each index below the number that was desired then. Any other job lists them.
    if replica.index in view.ran:
        return True
    old = job.status.replica_statuses.get(replica.role)
    return job.status.phase == "Running" and old is not None and replica.index < old.desired


def _was_surplus(job: TrainingJob, replica: Replica) -> bool:
    """True if this index was surplus until now."""
    old = job.status.replica_statuses.get(replica.role)
    return old is not None and replica.index >= old.desired


def _judge_failures(p: Pass, failed: Sequence[FailedReplica], draft: Draft) -> Pass:
    """Mark the final failures, and restart the others if the job goes on."""
    # Final failures come first: the message that the user reads must not depend on which pod has the lower index.
    final: list[tuple[FailedReplica, RestartRefusal]] = []
    retried: list[FailedReplica] = []
    for failure in failed:
        refusal = _find_refusal(failure, draft)
        if refusal is not None:
            final.append((failure, refusal))
        else:
            retried.append(failure)
    restarted: list[str] = []
    if not _ends_the_job(p, [failure for failure, _ in final]):
        reached: set[str] = set()
        for failure in (f for f in retried if f.role.name not in reached):
            # The restarts of this loop may have used up a limit.
            refusal = _find_refusal(failure, draft)
            if refusal is not None:
                final.append((failure, refusal))
                continue
            restarted.append(f"{describe(failure.diagnosis.failure)}; restart, scope {_restart_scope(failure)}")
            reached |= _raise_attempts(p, failure, draft)
        final = [(failure, refusal) for failure, refusal in final if failure.role.name not in reached]
    for failure, _ in final:
        draft.fail(failure.replica)
    if final and p.final is None:
        # Only a role that can fail explains why the job does.
        failure, refusal = next(((f, r) for f, r in final if f.role.fail_policy != "None"), final[0])
        p = p._replace(final=final_failure(failure.diagnosis, refusal.why, refusal.reason))
    for failure, refusal in final:
        if p.job.backoff_ends and refusal.reason == BACKOFF_LIMIT_EXCEEDED:
            p = p.end_unless_failed(refusal.reason, f"{describe(failure.diagnosis.failure)}; {refusal.why}")
    kept = [f"{describe(failure.diagnosis.failure)}; it stays failed: {refusal.why}" for failure, refusal in final]
    return p.with_new_attempts(draft.status()).log_decisions(*kept, *restarted).log_restarts(restarted)


def _raise_attempts(p: Pass, failed: FailedReplica, draft: Draft) -> set[str]:
    """Raise the attempts. Returns the roles that restart as a whole."""
    draft.count(failed.role.name, failed.diagnosis.cause)
    if failed.diagnosis.kind == "turned_away":
        turn_away(draft, failed.replica, p)
        return set()
    scope = _restart_scope(failed)
    reached = {"Pod": set(), "Replica": {failed.role.name}, "All": set(p.roles)}[scope]
    if scope == "Pod":
        draft.raise_pod(failed.replica)
    else:
        draft.raise_roles(sorted(reached), whole_job=scope == "All")
    if failed.diagnosis.cause == "application" and failed.replica.pod is not None:
        # Only crashes wait longer with each one: a lost node or a deletion says nothing about the next try.
        forget = ran_long(failed.replica.pod, p.job.main_container)
        crashes = draft.crash(failed.replica, sorted(reached), forget=forget)
        if (until := after_crash(crashes, p.now)) is not None:
            draft.rest(failed.replica, until, p.now)
    return reached


def _restart_scope(failed: FailedReplica) -> RestartScope:
    # A pod that never started has done nothing that concerns other pods.
    return "Pod" if failed.diagnosis.kind == "turned_away" else failed.role.restart_scope


def _ends_the_job(p: Pass, final: Sequence[FailedReplica]) -> bool:
    # As if they were marked already: a job that ends by them must not first replace the other failed pods.
    if not final:
        return False
    marked = {failed.replica.name for failed in final}
    views_then = {
        name: replace(
            view,
            replicas=tuple(r._replace(state="failed", final=True) if r.name in marked else r for r in view.replicas),
        )
        for name, view in p.roles.items()
    }
    return job_verdict(p.job, views_then).verdict == "failed"


def _find_refusal(failed: FailedReplica, draft: Draft) -> RestartRefusal | None:
    """Why the replica is not restarted, by the role's policy or by a limit; None if it is."""
    job, role = failed.job, failed.role
    if failed.diagnosis.kind == "turned_away":
        # The pod never started, so a new pod is not a restart.
        return None
    refusal = RESTART_POLICIES[role.restart_policy](failed)
    # Only the application's failures count for the limits.
    if refusal is not None or failed.diagnosis.cause != "application":
        return refusal
    if role.restart_limit is not None and draft.application_restarts(role.name) >= role.restart_limit:
        return RestartRefusal(
            f"restartLimit {role.restart_limit} of role {role.name} is used up", RESTART_LIMIT_REACHED
        )
    if job.backoff_limit is None or not job.counts_for_backoff(role.name):
        return None
    if draft.application_restarts(*job.batch_roles) >= job.backoff_limit:
        return RestartRefusal(f"backoffLimit {job.backoff_limit} of the job is used up", BACKOFF_LIMIT_EXCEEDED)
    return None
