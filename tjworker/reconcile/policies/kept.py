"""What the death of a pod means where a ReplicaSet or a batch Job replaces it: which deaths count, which end the job. Pure.

The pods are replaced by their controller, whatever we say; here is decided what that was (application, node, preemption,
user), once each, by raising the attempt of the seat, and when it is the end:

- a trainer (batch Job) that fails: without `fault_tolerant` that is the end; with it, the end is when no trainer is left
  and every one of them has failed (seed 000: findFailedTrainerPods) by itself: a node that takes all its trainers with it
  has not made a fault-tolerant job fail;
- a trainer that somebody deletes has not failed: it is replaced, in every job;
- a server (ReplicaSet) is kept alive for as long as the job runs; one whose containers have been restarted as often as its
  role's limit says fails the job (a parameter server; a master has none). What a node or a user does to it never counts.

Safe to run twice: a death that was counted is one of an older attempt from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tjworker.api.model import TrainingJob
from tjworker.api.observed import PodRecord
from tjworker.api.status import Ending, Failure, JobStatus, RestartCounts
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.conditions import get_condition
from tjworker.reconcile.failures import Diagnosis, counted, describe, diagnose
from tjworker.reconcile.plan import LogTail
from tjworker.reconcile.policies.restart import RESTART_LIMIT_REACHED, Restarts, one_of, was_there, with_failures
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.seats import number_of


@dataclass(slots=True)
class _Found:
    """What one look at the dead has come to."""

    draft: Draft
    failures: list[Failure] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    final: list[tuple[Failure, str]] = field(default_factory=list)


def decide_kept(
    job: TrainingJob, status: JobStatus, views: Mapping[str, RoleView], now: str, restart_limit: int
) -> tuple[Restarts, Ending | None]:
    """(the deaths of this pass, the end that a server's restarts bring). `restart_limit`: of a role that has none itself."""
    seated = [v for v in views.values() if v.role.workload != "Pod"]
    found = _Found(Draft(status))
    for view in seated:
        _look(job, view, now, found)
    result = Restarts(
        found.draft.status(),
        decisions=(*found.kept, *found.replaced),
        log_tails=tuple(LogTail(f.pod, f.container) for f in found.failures if f.container),
        restarted=bool(found.replaced),
        why=one_of(found.replaced),
        final=found.final[0][0] if found.final else None,
        why_final=found.final[0][1] if found.final else "",
    )
    if found.failures:
        ordered = sorted(found.failures, key=lambda f: (f.time, f.pod))
        result = replace(result, status=with_failures(result.status, ordered))
    result = replace(result, status=_count_restarts(result.status, seated))
    return result, _server_end(seated, now, restart_limit)


def _look(job: TrainingJob, view: RoleView, now: str, found: _Found) -> None:
    owner_failed = view.role.workload == "Job" and view.owner is not None and view.owner.condition == "Failed"
    over = _why_over(job, view, now)
    for replica in (r for r in view.replicas if not r.final):
        if owner_failed:
            _give_up(replica, _of_owner(view, now), "its batch Job has failed", found)
        elif replica.state in ("failed", "lost") or (
            replica.state == "terminating" and replica.pod and replica.pod.disruption
        ):
            assert replica.pod is not None  # noqa: S101  no such state without a pod
            diagnosis = diagnose(replica.pod, now)
            if over:
                _give_up(replica, diagnosis.failure, over, found)
                if job.fault_tolerant:
                    # Those that failed before and still wait for a replacement have failed for good with it.
                    for other in view.replicas:
                        found.draft.fail(other)
            else:
                _replace(view, replica, diagnosis, found)
        elif replica.state == "terminating" or _has_vanished(job, view, replica):
            found.draft.raise_pod(replica)
            found.draft.count(replica.role, "user")
            what = "somebody deletes it" if replica.state == "terminating" else "the one before it has vanished"
            found.replaced.append(f"replace {replica.name}: {what}")


def _has_vanished(job: TrainingJob, view: RoleView, replica: Replica) -> bool:
    """The job ran, so each seat had its pod; now there is none, or one that was made since (its controller was faster than
    our look)."""
    if not was_there(job, view, replica):
        return False
    pod = replica.pod
    if pod is None:
        return replica.state == "missing"
    ran = get_condition(job.status, "Running")
    return (
        number_of(pod) is None
        and ran is not None
        and ran.status == "True"
        and pod.created_at > ran.last_transition_time
    )


def _give_up(replica: Replica, failure: Failure, why: str, found: _Found) -> None:
    found.draft.fail(replica)
    if not any(f == failure for f in found.failures):
        found.failures.append(failure)
    found.final.append((failure, why))
    found.kept.append(f"{describe(failure)}; it stays failed: {why}")


def _replace(view: RoleView, replica: Replica, diagnosis: Diagnosis, found: _Found) -> None:
    found.draft.raise_pod(replica)
    found.draft.count(replica.role, diagnosis.cause)
    found.failures.append(diagnosis.failure)
    found.replaced.append(f"{describe(diagnosis.failure)}; its {view.role.workload} replaces it")


def _why_over(job: TrainingJob, view: RoleView, now: str) -> str:
    """Why a pod of this role that fails now is not waited for; '' when its controller's replacement is."""
    if view.role.workload != "Job":
        return ""
    if not job.fault_tolerant:
        return "the job is not fault tolerant"
    return "all trainers have failed" if _all_failed(view, now) else ""


def _all_failed(view: RoleView, now: str) -> bool:
    """Each seat's last pod has failed by itself, and no replacement is there yet. A failed pod whose death was counted is one
    attempt behind its seat."""
    before = {number_of(p) for p in view.others if _by_itself(p, now)}
    return all(
        (r.state == "failed" and (r.pod is None or _by_itself(r.pod, now)))
        or (r.state == "missing" and (r.index, r.attempt - 1) in before)
        for r in view.replicas
    )


def _by_itself(pod: PodRecord, now: str) -> bool:
    return pod.phase == "Failed" and diagnose(pod, now).cause == "application"


def _of_owner(view: RoleView, now: str) -> Failure:
    owner = view.owner
    assert owner is not None  # noqa: S101  the caller has looked
    return Failure(pod=owner.name, reason=owner.reason or "Failed", message=owner.message, time=now)


# -- servers ---------------------------------------------------------------------------------------------------------------


def _count_restarts(status: JobStatus, seated: Iterable[RoleView]) -> JobStatus:
    """A server's containers are restarted by the kubelet, which counts them on the pod. The status has what can be seen now
    and never less than before: with its pod a count goes."""
    counts = dict(status.restart_counts)
    for view in seated:
        if view.role.workload == "ReplicaSet":
            seen = sum(_restarts(p) for p in _servers(view))
            old = counts.get(view.role.name, RestartCounts())
            if seen > old.application:
                counts[view.role.name] = old.model_copy(update={"application": seen})
    return status if counts == status.restart_counts else status.model_copy(update={"restart_counts": counts})


def _server_end(seated: Iterable[RoleView], now: str, default_limit: int) -> Ending | None:
    for view in seated:
        if view.role.workload != "ReplicaSet":
            continue
        limit = max(1, view.role.restart_limit if view.role.restart_limit is not None else default_limit)
        for pod in _servers(view):
            if _restarts(pod) >= limit:
                worst = max(counted(pod), key=lambda c: c.restarts)
                message = (
                    f"pod {pod.name} on node {pod.node}: container {worst.name} has been restarted {worst.restarts} "
                    f"times; the limit of role {view.role.name} is {limit}"
                )
                return Ending(phase="Failed", reason=RESTART_LIMIT_REACHED, message=message[:1024], time=now)
    return None


def _servers(view: RoleView) -> list[PodRecord]:
    return [r.pod for r in view.replicas if r.pod is not None and r.state in ("running", "scheduled", "pending")]


def _restarts(pod: PodRecord) -> int:
    return max((c.restarts for c in counted(pod)), default=0)
