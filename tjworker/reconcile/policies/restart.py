"""Which failed pods start again, how far the restart reaches, and what it uses up. Pure.

A restart is data before it is action: this file only raises attempts in the status. The workload then finds pods of an
older attempt and replaces them, in this pass or, after a crash, in the next. RESTARTS is the one place of the table that
docs/lifecycle.md shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tjworker.api.model import RestartPolicy, Role, TrainingJob
from tjworker.api.status import MAX_FAILURES, Failure, JobStatus
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.failures import Diagnosis, describe, diagnose
from tjworker.reconcile.plan import LogTail
from tjworker.reconcile.policies.ends import job_verdict
from tjworker.reconcile.replicas import Replica, RoleView

RESTART_LIMIT_REACHED = "RestartLimitReached"
"""Reason of an end: a role may not be restarted once more, whoever restarts it."""
BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
"""Nor the job; a batch Job of Kubernetes says so with this word."""
Rule = Callable[[Diagnosis, frozenset[int]], bool]


def _never(_: Diagnosis, __: frozenset[int]) -> bool:
    return False


def _always(_: Diagnosis, __: frozenset[int]) -> bool:
    return True


def _pod_failed(d: Diagnosis, _: frozenset[int]) -> bool:
    # An evicted or preempted pod has failed as a pod, so the policies for failed pods replace it too; a node that is lost
    # or a GPU at fault is for the OnNodeFail policies alone.
    return d.kind in ("exit", "disrupted")


def _node_failed(d: Diagnosis, _: frozenset[int]) -> bool:
    return d.kind in ("node_lost", "gpu_fault", "disrupted")


def _retryable(d: Diagnosis, retryable: frozenset[int]) -> bool:
    if d.kind == "disrupted":
        return True
    return d.kind == "exit" and bool(d.exit_codes) and d.exit_codes <= retryable


RESTARTS: Mapping[RestartPolicy, Rule] = {
    "Never": _never,
    "Always": _always,
    "OnFailure": _pod_failed,
    "OnNodeFail": _node_failed,
    "ExitCode": _retryable,
    "OnNodeFailWithExitCode": lambda d, codes: _retryable(d, codes) or _node_failed(d, codes),
}


@dataclass(frozen=True, slots=True)
class Restarts:
    """What one look at the failed pods came to."""

    status: JobStatus
    decisions: tuple[str, ...] = ()
    log_tails: tuple[LogTail, ...] = ()
    last: Failure | None = None
    """The first of the failures that this pass has met (what failed first is most often why the rest did)."""
    restarted: bool = False
    """Some attempt was raised: pods are to be replaced."""
    why: str = ""
    """The first reason for that, for people."""
    final: Failure | None = None
    """The first of them that no restart follows."""
    why_final: str = ""
    final_reason: str = ""
    """Of the end that it brings, where a limit is what stands in the way of the restart."""


@dataclass(frozen=True, slots=True)
class _Failed:
    replica: Replica
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class _Refusal:
    why: str
    reason: str = ""


def decide_restarts(job: TrainingJob, status: JobStatus, views: Mapping[str, RoleView], now: str) -> Restarts:
    """Look at each replica that has newly failed or that somebody else deletes: raise its attempt, or mark it failed for
    good. Safe to run twice: a replica whose attempt was raised is outdated from then on and is not looked at again.

    A failure that ends the job goes before any restart that the same moment would bring: what a user reads must not hang
    on which pod has the lower index."""
    draft = Draft(status)
    decisions: list[str] = []
    failed: list[_Failed] = []
    replaced = False
    named = [v for v in views.values() if v.role.workload == "Pod"]  # the others: policies.kept
    for replica in (r for v in named for r in v.replicas if not r.final):
        pod = replica.pod
        if pod is not None and _has_failed(job, views[replica.role].role, replica, now):
            failed.append(_Failed(replica, diagnose(pod, now)))
        elif replica.state == "terminating" and _was_surplus(job, replica):
            # Scaled down, and up again before it was gone: nobody's restart.
            draft.raise_pod(replica)
        elif replica.state == "terminating" or (
            replica.state == "missing" and was_there(job, views[replica.role], replica)
        ):
            draft.raise_pod(replica)
            draft.count(replica.role, "user")
            replaced = True
            why = "it has vanished" if pod is None else "somebody deletes it"
            decisions.append(f"replace {replica.name}: {why}")
    if not failed:
        return Restarts(draft.status(), tuple(decisions), restarted=replaced, why=one_of(decisions))
    failed.sort(key=lambda f: (f.diagnosis.failure.time, f.replica.name))
    result = _decide(job, views, failed, draft)
    return replace(
        result,
        status=with_failures(result.status, [f.diagnosis.failure for f in failed]),
        decisions=(*decisions, *result.decisions),
        restarted=result.restarted or replaced,
        why=result.why or one_of(decisions),
        log_tails=tuple(
            LogTail(f.diagnosis.failure.pod, f.diagnosis.failure.container)
            for f in failed
            if f.diagnosis.failure.container
        ),
        last=failed[0].diagnosis.failure,
    )


def join(first: Restarts, then: Restarts) -> Restarts:
    """Both, where `then` was decided on the status of `first`."""
    return Restarts(
        then.status,
        first.decisions + then.decisions,
        first.log_tails + then.log_tails,
        first.last or then.last,
        first.restarted or then.restarted,
        first.why or then.why,
        first.final or then.final,
        first.why_final or then.why_final,
        first.final_reason or then.final_reason,
    )


def one_of(decisions: Sequence[str]) -> str:
    """The first, and how many there are more."""
    more = f", and {len(decisions) - 1} more" if len(decisions) > 1 else ""
    return f"{decisions[0]}{more}" if decisions else ""


def _has_failed(job: TrainingJob, role: Role, replica: Replica, now: str) -> bool:
    pod = replica.pod
    if pod is None:
        return False
    if replica.state in ("failed", "lost"):
        return True
    if replica.state == "terminating":
        # Evicted or preempted: it runs out its grace and will then have failed. Waiting for that would make the outcome
        # hang on whether we happen to look in between.
        return bool(pod.disruption)
    # A pod with a GPU at fault still runs: it is only taken away when its policy replaces it.
    faulty = bool(pod.gpu_fault) and replica.state in ("running", "scheduled")
    return faulty and RESTARTS[role.restart_policy](diagnose(pod, now), job.retryable_exit_codes)


def was_there(job: TrainingJob, view: RoleView, replica: Replica) -> bool:
    """A job that was Running had a pod for each index below what was desired then; any other says which it has seen run."""
    if replica.index in view.ran:
        return True
    old = job.status.replica_statuses.get(replica.role)
    return job.status.phase == "Running" and old is not None and replica.index < old.desired


def _was_surplus(job: TrainingJob, replica: Replica) -> bool:
    """Until now the role was not to have this index."""
    old = job.status.replica_statuses.get(replica.role)
    return old is not None and replica.index >= old.desired


def _decide(job: TrainingJob, views: Mapping[str, RoleView], failed: Sequence[_Failed], draft: Draft) -> Restarts:
    """First what cannot be restarted; and only if the job outlives that, the restarts."""
    final: list[tuple[_Failed, _Refusal]] = []
    retried: list[_Failed] = []
    for one in failed:
        refusal = _refusal(job, views, one, draft)
        if refusal is not None:
            final.append((one, refusal))
        else:
            retried.append(one)
    restarted: list[tuple[_Failed, str]] = []
    if not _ends_the_job(job, views, [f for f, _ in final]):
        reached: set[str] = set()
        for one in retried:
            role = views[one.replica.role].role
            if role.name in reached:
                continue
            refusal = _refusal(job, views, one, draft)
            if refusal is not None:
                final.append((one, refusal))
                continue
            draft.count(role.name, one.diagnosis.cause)
            restarted.append((one, f"restart, scope {role.restart_scope}"))
            if role.restart_scope == "Pod":
                draft.raise_pod(one.replica)
            else:
                now_reached = {role.name} if role.restart_scope == "Replica" else set(views)
                draft.raise_roles(sorted(now_reached), whole_job=role.restart_scope == "All")
                reached |= now_reached
        final = [(f, refusal) for f, refusal in final if f.replica.role not in reached]
    for one, _ in final:
        draft.fail(one.replica)
    kept = [f"{describe(f.diagnosis.failure)}; it stays failed: {refusal.why}" for f, refusal in final]
    replaced = [f"{describe(f.diagnosis.failure)}; {what}" for f, what in restarted]
    return Restarts(
        draft.status(),
        (*kept, *replaced),
        why=one_of(replaced),
        restarted=bool(restarted),
        final=final[0][0].diagnosis.failure if final else None,
        why_final=final[0][1].why if final else "",
        final_reason=final[0][1].reason if final else "",
    )


def _ends_the_job(job: TrainingJob, views: Mapping[str, RoleView], final: Sequence[_Failed]) -> bool:
    if not final:
        return False
    marked = {f.replica.name for f in final}
    then = {
        name: replace(
            view,
            replicas=tuple(replace(r, state="failed", final=True) if r.name in marked else r for r in view.replicas),
        )
        for name, view in views.items()
    }
    return job_verdict(job, then).verdict == "failed"


def _refusal(job: TrainingJob, views: Mapping[str, RoleView], one: _Failed, draft: Draft) -> _Refusal | None:
    """Why this failure is not followed by a restart; None when it is."""
    role, diagnosis = views[one.replica.role].role, one.diagnosis
    if not RESTARTS[role.restart_policy](diagnosis, job.retryable_exit_codes):
        if diagnosis.kind == "exit" and role.restart_policy in ("ExitCode", "OnNodeFailWithExitCode"):
            codes = ", ".join(str(c) for c in sorted(diagnosis.exit_codes)) or "none"
            return _Refusal(f"restartPolicy {role.restart_policy}: exit code {codes} is not retryable")
        return _Refusal(f"restartPolicy is {role.restart_policy}")
    if diagnosis.cause != "application":
        return None
    if role.restart_limit is not None and draft.application_restarts(role.name) >= role.restart_limit:
        return _Refusal(f"restartLimit {role.restart_limit} of role {role.name} is used up", RESTART_LIMIT_REACHED)
    if job.backoff_limit is not None and draft.application_restarts() >= job.backoff_limit:
        return _Refusal(f"backoffLimit {job.backoff_limit} of the job is used up", BACKOFF_LIMIT_EXCEEDED)
    return None


def with_failures(status: JobStatus, new: Sequence[Failure]) -> JobStatus:
    """Newest first. Of many at once the first are kept: the others mostly follow from them."""
    kept = tuple(reversed(new[:MAX_FAILURES]))
    return status.model_copy(update={"failures": (*kept, *status.failures)[:MAX_FAILURES]})
