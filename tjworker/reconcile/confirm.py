"""Destructive decisions are confirmed with the API server first. Pure.

The projection is a view of a moment, and anybody who can write Redis can put back an older view or remove records. What
a job asks for and what has succeeded is safe nevertheless: records are sealed, a success stays one, and the status
write names the job's resourceVersion. But a failure, a restart, or a pod in a batch Job's name rests on an object that
is *not* there any more, and no seal proves that. So a plan that counts one of these needs the object as the API server
has it, and the job is decided again on the answer.

A job without trouble needs nothing. The difference between two statuses decides, not the step that made it: no new
policy can forget to confirm.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tjworker.api.naming import owner_name
from tjworker.api.needs import ALL_PODS, ChildNow
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS
from tjworker.api.status import JobStatus, RoleAttempts
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import Create, Plan
from tjworker.reconcile.policies.creating import stuck_container
from tjworker.reconcile.policies.restart_failed import was_there
from tjworker.reconcile.replicas import Replica, RoleView

_OWNERS = {"ReplicaSet": REPLICASETS, "Job": BATCH_JOBS}


def need_confirmation(begun: Pass, plan: Plan) -> Plan:
    """The plan with the children that it must confirm and has not. `begun`: the pass before its first step."""
    if not _is_destructive(begun, plan):
        return plan
    needs = set(_suspects(begun)) - begun.observed.confirmed
    if ALL_PODS in begun.observed.confirmed:
        needs = {need for need in needs if need.resource != PODS}
    return replace(plan, needs=(*plan.needs, *sorted(needs)))


def _is_destructive(begun: Pass, plan: Plan) -> bool:
    """True if the plan counts a failure or a restart, ends a job that has not succeeded, replaces a pod that cannot
    start, or creates a pod in a controller's name."""
    if any(isinstance(w, Create) and w.resource == PODS and not _is_owned_by_job(begun, w) for w in plan.writes):
        return True
    if plan.status is None:
        return False
    before, after = begun.job.status, plan.status
    ends = after.ending is not None and before.ending is None and after.ending.phase != "Succeed"
    if ends or before.restart_counts != after.restart_counts:
        return True
    if begun.job.suspend:
        # The spec alone begins a new attempt.
        return False
    if _attempt_fields(before, "all", "failed") != _attempt_fields(after, "all", "failed"):
        return True
    # The attempt of a pod rises without being counted if the pod was surplus, or if it could not start. Only the second
    # needs confirmation.
    stuck = any(_cannot_start(replica) for view in begun.roles.values() for replica in view.replicas)
    return stuck and _attempt_fields(before, "pods") != _attempt_fields(after, "pods")


def _attempt_fields(status: JobStatus, *fields: str) -> dict[str, tuple[object, ...]]:
    """These fields of the attempts of each role, for roles in which they differ from their defaults."""
    defaults = tuple(getattr(RoleAttempts(), field) for field in fields)
    values = {role: tuple(getattr(a, field) for field in fields) for role, a in status.attempts.roles.items()}
    return {role: found for role, found in values.items() if found != defaults}


def _is_owned_by_job(begun: Pass, create: Create) -> bool:
    return any(owner["uid"] == begun.job.uid for owner in create.body["metadata"].get("ownerReferences", ()))


def _suspects(begun: Pass) -> Iterator[ChildNow]:
    """The children on whose trouble the plan may rest."""
    for view in begun.roles.values():
        if view.role.workload == "Pod":
            yield from (ChildNow(PODS, r.name) for r in view.replicas if _is_suspect(begun, view, r))
        else:
            # The slot of a pod depends on every other pod of its owner, and their names cannot be predicted. Without
            # the owner none of them would belong to the job.
            yield ALL_PODS
            yield ChildNow(_OWNERS[view.role.workload], owner_name(begun.job.name.name, view.role.name))


def _is_suspect(begun: Pass, view: RoleView, replica: Replica) -> bool:
    pod = replica.pod
    if replica.final:
        return False
    if pod is None:
        return replica.state == "missing" and was_there(begun.job, view, replica)
    if replica.state in ("failed", "lost", "terminating") or pod.gpu_fault or view.has_failed(pod):
        return True
    return _cannot_start(replica)


def _cannot_start(replica: Replica) -> bool:
    return replica.state == "scheduled" and replica.pod is not None and stuck_container(replica.pod) is not None
