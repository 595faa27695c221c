"""What hurts is decided on the API server's own word. Pure.

The projection is a view of a moment, and who can write Redis can put an older one back or take records out of it. What
a job asks for and what has succeeded is safe all the same: records are sealed, a success stays one, and the status
write names the job's resourceVersion. Not so a failure, a restart or a pod in a batch Job's name, for these rest on
what is *not* there, or is there no longer. So a plan that counts one names what it rests on, and whoever carries the
plan out asks the API server for that first, and has it decided again.

A job whose life nothing disturbs asks for nothing. The judge is the difference between two statuses, not the step that
made it: a new policy cannot forget to ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tjworker.api.naming import owner_name
from tjworker.api.resources import BATCH_JOBS, PODS, REPLICASETS
from tjworker.api.status import JobStatus, RoleAttempts
from tjworker.reconcile.one_pass import Pass
from tjworker.reconcile.plan import ALL_PODS, Create, Plan
from tjworker.reconcile.policies.creating import stuck_container
from tjworker.reconcile.policies.restart_failed import was_there
from tjworker.reconcile.replicas import Replica, RoleView

_OWNERS = {"ReplicaSet": REPLICASETS, "Job": BATCH_JOBS}


def to_confirm(begun: Pass, plan: Plan) -> Plan:
    """The plan, with what it rests on and has not been confirmed. `begun`: the pass before its first step."""
    if not _hurts(begun, plan):
        return plan
    asked = set(_rests_on(begun)) - begun.observed.confirmed
    if ALL_PODS in begun.observed.confirmed:
        asked = {name for name in asked if not name.startswith(f"{PODS}/")}
    return replace(plan, confirm=tuple(sorted(asked))) if asked else plan


def _hurts(begun: Pass, plan: Plan) -> bool:
    """It counts a failure or a restart, ends a job that has not succeeded, replaces a pod that cannot start, or makes
    one in a controller's name."""
    if any(isinstance(w, Create) and w.resource == PODS and not _is_ours(begun, w) for w in plan.writes):
        return True
    if plan.status is None:
        return False
    before, after = begun.job.status, plan.status
    ends = after.ending is not None and before.ending is None and after.ending.phase != "Succeed"
    if ends or before.restart_counts != after.restart_counts:
        return True
    if begun.job.suspend:  # the spec alone begins a new attempt
        return False
    if _of_each(before, "all", "failed") != _of_each(after, "all", "failed"):
        return True
    # Raised and not counted: a pod that was one too many; or one that could not start.
    stuck = any(_cannot_start(replica) for view in begun.roles.values() for replica in view.replicas)
    return stuck and _of_each(before, "pods") != _of_each(after, "pods")


def _of_each(status: JobStatus, *fields: str) -> dict[str, tuple[object, ...]]:
    """Of each role about which its attempts say something."""
    nothing = tuple(getattr(RoleAttempts(), field) for field in fields)
    said = {role: tuple(getattr(a, field) for field in fields) for role, a in status.attempts.roles.items()}
    return {role: what for role, what in said.items() if what != nothing}


def _is_ours(begun: Pass, create: Create) -> bool:
    return any(owner["uid"] == begun.job.uid for owner in create.body["metadata"].get("ownerReferences", ()))


def _rests_on(begun: Pass) -> Iterator[str]:
    for view in begun.roles.values():
        if view.role.workload == "Pod":
            yield from (f"{PODS}/{r.name}" for r in view.replicas if _is_suspect(begun, view, r))
        else:
            # Which slot a pod holds hangs on every other pod of its owner, under names that nobody knows beforehand;
            # and without its owner none would be the job's.
            yield ALL_PODS
            yield f"{_OWNERS[view.role.workload]}/{owner_name(begun.job.name.name, view.role.name)}"


def _is_suspect(begun: Pass, view: RoleView, replica: Replica) -> bool:
    """The plan may rest on its trouble."""
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
