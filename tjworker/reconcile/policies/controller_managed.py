"""Deaths of pods that a ReplicaSet or a batch Job replaces: which of them count, and which end the job. Pure.

The controller replaces its pods in any case. This step finds the cause of a death (application, node, preemption,
user), counts it once by raising the attempt of its slot, and decides when the job ends:

- A failed trainer (batch Job) ends the job, unless the job is `fault_tolerant`. Then the job ends when no trainer is
  left and each has failed by itself, as in PaddlePaddle EDL's findFailedTrainerPods. The loss of a node with all
  trainers does not fail a fault-tolerant job.
- A deleted trainer has not failed. It is replaced, in every job. A trainer that a kubelet rejected before it started
  has not failed either: it rests, and is replaced. A surplus trainer that its controller deletes does not count.
- A server (ReplicaSet) runs as long as the job. If its containers have been restarted as often as its role's limit
  allows, the job fails. (That is for parameter servers; a master has no limit.) What a node or a user does to a server
  never counts.

Safe to run twice: a counted death belongs to an older attempt from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tjworker.api.model import TrainingJob
from tjworker.api.observed import ENDED_PHASES, PodRecord
from tjworker.api.status import BACKOFF_LIMIT_EXCEEDED, Failure, JobStatus, RestartCounts
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.attempts import Draft
from tjworker.reconcile.failures import Diagnosis, counted, describe, diagnose
from tjworker.reconcile.one_pass import FinalFailure, Pass
from tjworker.reconcile.policies.backoff import turn_away, vanish, vanished_unseen
from tjworker.reconcile.policies.restart_failed import RESTART_LIMIT_REACHED, final_failure, was_there
from tjworker.reconcile.replicas import Replica, RoleView
from tjworker.reconcile.slots import ordinal_of


@dataclass(slots=True)
class _Found:
    """What the step has decided about the roles so far."""

    draft: Draft
    failures: list[Failure] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    """Log lines about replicas whose pods are replaced."""
    kept: list[str] = field(default_factory=list)
    """Log lines about replicas that stay failed."""
    final: list[FinalFailure] = field(default_factory=list)


def count_deaths(p: Pass) -> Pass:
    managed = [v for v in p.roles.values() if v.role.workload != "Pod"]
    if not managed:
        return p
    p, found = _propose_end(p, managed), _Found(Draft(p.status))
    for view in managed:
        _count_role(p, view, found)
    p = p.with_new_attempts(_count_restarts(found.draft.status(), managed)).log_decisions(*found.kept, *found.replaced)
    p = p.log_restarts(found.replaced).add_failures(found.failures)
    return p._replace(final=p.final or next(iter(found.final), None))


def _count_role(p: Pass, view: RoleView, found: _Found) -> None:
    job, now = p.job, p.at
    owner_failed = view.role.workload == "Job" and view.owner is not None and view.owner.condition == "Failed"
    over = _why_over(job, view, now)
    for replica in (r for r in view.replicas if not r.final):
        pod = replica.pod
        if owner_failed:
            _give_up(replica, FinalFailure(_of_owner(view, now), "its batch Job has failed"), found)
        elif pod is not None and _has_died(replica, pod):
            _count_death(p, view, replica, over, found)
        elif replica.state == "terminating" and pod is not None and _was_too_many(view, pod):
            found.draft.raise_pod(replica)
        elif replica.state == "terminating" or _has_vanished(job, view, replica):
            found.draft.raise_pod(replica)
            found.draft.count(replica.role, "user")
            if replica.state == "terminating" and pod is not None and pod.never_started:
                vanish(found.draft, replica, p)
            what = "it is being deleted" if replica.state == "terminating" else "the one before it has vanished"
            found.replaced.append(f"replace {replica.name}: {what}")
        elif vanished_unseen(p, view, replica):
            vanish(found.draft, replica, p)


def _count_death(p: Pass, view: RoleView, replica: Replica, over: str, found: _Found) -> None:
    """Count the death of one pod. `over`: why the job does not wait for a replacement of a pod that fails now."""
    job = p.job
    assert replica.pod is not None  # noqa: S101  the caller has looked
    diagnosis = diagnose(replica.pod, p.at)
    if diagnosis.kind == "turned_away" and view.role.workload == "Job" and not was_there(job, view, replica):
        turn_away(found.draft, replica, p)
        _replaced(view, replica, diagnosis, found)
        return
    spent = _find_limit(job, diagnosis, found)
    if not over and not spent:
        found.draft.raise_pod(replica)
        _replaced(view, replica, diagnosis, found)
        return
    _give_up(replica, final_failure(diagnosis, over or spent, "" if over else BACKOFF_LIMIT_EXCEEDED), found)
    if job.fault_tolerant or spent:
        # Replicas that failed earlier and still wait for their replacement finally fail, too.
        for other in view.replicas:
            found.draft.fail(other)


def _find_limit(job: TrainingJob, diagnosis: Diagnosis, found: _Found) -> str:
    """Why the job's limit forbids another restart; '' if it does not."""
    if job.backoff_limit is None or diagnosis.cause != "application":
        return ""
    used_up = found.draft.application_restarts() >= job.backoff_limit
    return f"backoffLimit {job.backoff_limit} of the job is used up" if used_up else ""


def _has_died(replica: Replica, pod: PodRecord) -> bool:
    return replica.state in ("failed", "lost") or (replica.state == "terminating" and bool(pod.disruption))


def _was_too_many(view: RoleView, pod: PodRecord) -> bool:
    """True if the controller deleted a surplus pod: when the deletion came, as many others lived as its owner wants.

    So it is after scaling down, until the owner's count rises again. It also happens if the operator and the controller
    have both created a replacement."""
    owner = view.owner
    if owner is None:
        return False
    pods = [*view.surplus, *view.others, *(r.pod for r in view.replicas if r.pod is not None)]
    alive = [p for p in pods if p.deleted_at is None and not p.lost and p.phase not in ENDED_PHASES]
    # Times of the API server have whole seconds, so a pod created in the same second may be the replacement.
    before = sum(p.owner_uid == owner.uid and (p.created_at or 0) < (pod.deletion_asked_at or 0) for p in alive)
    return before >= owner.desired


def _has_vanished(job: TrainingJob, view: RoleView, replica: Replica) -> bool:
    """True if the slot had a pod, and has none now, or one that was created since."""
    if not was_there(job, view, replica):
        return False
    pod = replica.pod
    if pod is None:
        return replica.state == "missing"
    # A controller may have replaced the pod before this pass. The new pod is younger than the condition Running.
    ran = job.status.condition("Running")
    since = from_rfc3339(ran.last_transition_time) if ran is not None and ran.status == "True" else None
    return ordinal_of(pod) is None and since is not None and (pod.created_at or 0) > since


def _give_up(replica: Replica, final: FinalFailure, found: _Found) -> None:
    found.draft.fail(replica)
    if not any(f == final.failure for f in found.failures):
        found.failures.append(final.failure)
    found.final.append(final)
    found.kept.append(f"{describe(final.failure)}; it stays failed: {final.why}")


def _replaced(view: RoleView, replica: Replica, diagnosis: Diagnosis, found: _Found) -> None:
    found.draft.count(replica.role, diagnosis.cause)
    found.failures.append(diagnosis.failure)
    found.replaced.append(f"{describe(diagnosis.failure)}; its {view.role.workload} replaces it")


def _why_over(job: TrainingJob, view: RoleView, now: str) -> str:
    """Why the job does not wait for a replacement of a pod that fails now; '' if it does."""
    if view.role.workload != "Job":
        return ""
    if not job.fault_tolerant:
        return "the job is not fault tolerant"
    return "all trainers have failed" if _all_failed(view, now) else ""


def _all_failed(view: RoleView, now: str) -> bool:
    """True if each slot's last pod has failed by itself, and has no replacement yet."""
    # A failed pod whose death is counted is one attempt behind its slot.
    before = {ordinal_of(p) for p in view.others if _by_itself(p, now)}
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


# -- servers ---------------------------------------------------------------------------------------


def _count_restarts(status: JobStatus, managed: Iterable[RoleView]) -> JobStatus:
    """The status with the restarts of servers' containers, which the kubelet counts on the pod."""
    # The count never falls: a deleted pod takes its own count with it.
    counts = dict(status.restart_counts)
    for view in managed:
        if view.role.workload == "ReplicaSet":
            seen = sum(_restarts(p) for p in _servers(view))
            old = counts.get(view.role.name, RestartCounts())
            if seen > old.application:
                counts[view.role.name] = old.model_copy(update={"application": seen})
    return status if counts == status.restart_counts else status.model_copy(update={"restart_counts": counts})


def _propose_end(p: Pass, managed: Iterable[RoleView]) -> Pass:
    for view, pod in ((v, pod) for v in managed if v.role.workload == "ReplicaSet" for pod in _servers(v)):
        limit = max(1, p.rules.restart_limit if view.role.restart_limit is None else view.role.restart_limit)
        if _restarts(pod) >= limit:
            worst = max(counted(pod), key=lambda c: c.restarts)
            message = (
                f"pod {pod.name} on node {pod.node}: container {worst.name} has been restarted {worst.restarts} "
                f"times; the limit of role {view.role.name} is {limit}"
            )
            return p.end_unless_failed(RESTART_LIMIT_REACHED, message)
    return p


def _servers(view: RoleView) -> list[PodRecord]:
    return [r.pod for r in view.replicas if r.pod is not None and r.state in ("running", "scheduled", "pending")]


def _restarts(pod: PodRecord) -> int:
    return max((c.restarts for c in counted(pod)), default=0)
