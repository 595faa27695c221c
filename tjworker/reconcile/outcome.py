"""Turns decisions into the Plan of the pass: numbers, phase, the status write, the event. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tjworker.api.end_policies import race_to_end
from tjworker.api.indices import MAX_INDEX, parse_indices
from tjworker.api.model import TrainingJob
from tjworker.api.naming import role_labels, selector
from tjworker.api.observed import PodRecord
from tjworker.api.status import ACCEPTED, POD_NOT_GONE, EndPhase, JobStatus, Phase, ReplicaStatus, RoleAttempts
from tjworker.api.tenancy import ignored_tenancy
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.reconcile import phase
from tjworker.reconcile.conditions import see_generation, set_condition
from tjworker.reconcile.failures import ended_at
from tjworker.reconcile.gangs import ignored_fields
from tjworker.reconcile.peers import describe_left_out
from tjworker.reconcile.plan import Event, EventType, Plan, Write
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.rules import Rules
from tjworker.reconcile.spec_errors import note_errors

GATHER_SECONDS = 1.0
_NUMBER = re.compile("[0-9]+")

# Phases that a job enters with an event. Not Pending, Creating and Terminating: a job passes through them within
# seconds, and three more events would be three more requests in the life of a short job. For a job that stays in one of
# them, `_report_stuck` sends an event with the reason: no node, a missing image, a refused child, a pod that stays.
_EVENTS: Mapping[str, EventType] = {
    "Running": "Normal",
    "Restarting": "Warning",
    "Scaling": "Normal",
    "Suspended": "Normal",
    "Succeed": "Normal",
    "Failed": "Warning",
    "Timeout": "Warning",
    "Preempted": "Warning",
    "NodeFail": "Warning",
}
_WAITING = frozenset({"Pending", "Creating", "Restarting", "Scaling"})


def finish_plan(
    job: TrainingJob,
    status: JobStatus,
    new: Phase,
    at: str,
    *,
    writes: Sequence[Write],
    message: str,
    too_large: str = "",
) -> Plan:
    """The Plan of a pass: the status if it has changed, with its time; an event if the phase has changed. `too_large`:
    why the gang can never have room, which the condition Running says first."""
    status = see_generation(
        _without_old_targets(job, status.model_copy(update={"phase": new})), job.generation
    ).summarised()
    changed = status != job.status and not _only_numbers_moved(job.status, status, too_large)
    if changed:
        status = status.model_copy(update={"last_reconcile_time": at})
    moved = new != job.status.phase
    event_type = _EVENTS.get(new) if moved else None
    events: tuple[Event, ...] = ()
    if event_type is not None:
        events = (Event(event_type, new, message[:1024]),)
    elif changed:
        events = _report_stuck(job.status, status)
    decisions = (f"phase {job.status.phase or 'none'} -> {new}: {message}",) if moved else ()
    return Plan(status=status if changed else None, writes=tuple(writes), events=events, decisions=decisions)


def gather_seconds(old: JobStatus, new: JobStatus | None, views: Mapping[str, RoleView], now: float) -> float:
    """Delay before a change of counters only is written, such as the number of running pods: up to a second after the
    last write, and after the first success that the status does not have yet. So several changes share one write."""
    if new is None or old.phase != new.phase or _without_counters(old) != _without_counters(new):
        # Phases, conditions, ends, restarts and failures are reported at once.
        return 0.0
    unrecorded = [pod for view in views.values() for pod in _unrecorded_successes(old, view)]
    # A success must be recorded before its pod is gone. Only the finalizer of a batch Job keeps the pod until then.
    if any(pod.deleted_at is not None or not pod.uncounted for pod in unrecorded):
        return 0.0
    # A crash during the delay loses nothing: the next pass finds the same counters, or newer ones.
    ends = (t for t in map(ended_at, unrecorded) if t is not None)
    left = (t + GATHER_SECONDS - now for t in (from_rfc3339(old.last_reconcile_time), min(ends, default=None)) if t)
    # More than GATHER_SECONDS is left only if another clock runs ahead.
    return max((s for s in left if 0 < s <= GATHER_SECONDS), default=0.0)


def _unrecorded_successes(old: JobStatus, view: RoleView) -> list[PodRecord]:
    """Pods whose success the status does not have yet."""
    if not view.count("succeeded"):
        return []
    recorded = parse_indices(old.attempts.roles.get(view.role.name, RoleAttempts()).completed, MAX_INDEX)
    return [r.pod for r in view.replicas if r.state == "succeeded" and r.index not in recorded and r.pod is not None]


def _without_counters(status: JobStatus) -> JobStatus:
    conditions = tuple(c.model_copy(update={"message": ""}) if c.type == "Running" else c for c in status.conditions)
    cleared = {"ran": "", "made": "", "started": "", "completed": ""}
    roles = {name: a.model_copy(update=cleared) for name, a in status.attempts.roles.items()}
    return status.model_copy(
        update={
            "conditions": conditions,
            "attempts": status.attempts.model_copy(
                update={"roles": {name: a for name, a in roles.items() if a != RoleAttempts()}}
            ),
            "replica_statuses": {},
            "replicas": 0,
            "active": "",
            "message": "",
            "last_reconcile_time": None,
        }
    )


def _without_old_targets(job: TrainingJob, status: JobStatus) -> JobStatus:
    """The status without targets of roles that follow none (`TrainingJob.with_targets`)."""
    # A target that is void now must not become valid again by itself.
    followed = {role.name for role in job.roles if role.declared_replicas is not None}
    if status.targets.keys() <= followed and status.targets_beside.keys() <= followed:
        return status
    kept = {name: getattr(status, name) for name in ("targets", "targets_beside")}
    return status.model_copy(
        update={name: {role: n for role, n in values.items() if role in followed} for name, values in kept.items()}
    )


def _report_stuck(old: JobStatus, new: JobStatus) -> tuple[Event, ...]:
    """An event when a new reason blocks the job: the scheduler finds no node, an image is missing."""
    was, now = old.condition("Running"), new.condition("Running")
    if now is None or now.reason == new.phase:
        return ()
    if new.phase not in _WAITING and now.reason != POD_NOT_GONE:
        return ()
    if was is not None and was.reason == now.reason:
        return ()
    return (Event("Warning", now.reason, now.message),)


def _only_numbers_moved(old: JobStatus, new: JobStatus, too_large: str) -> bool:
    """True if the status differs in numbers of messages only. Those are not worth a write: while a pod waits, the
    scheduler's message changes with every change in the cluster ("0/41 nodes are available: 17 Insufficient cpu")."""
    return old.phase == new.phase and _numberless(old, too_large) == _numberless(new, too_large)


def _numberless(status: JobStatus, too_large: str) -> JobStatus:
    """The status without the numbers of messages; those of `too_large` stay."""
    # The operator's own numbers say by how much the gang is too large. They are news, and change with nodes only.
    conditions = tuple(
        c.model_copy(update={"message": _hide_numbers(c.message, after=too_large)}) if c.type == "Running" else c
        for c in status.conditions
    )
    return status.model_copy(update={"message": _NUMBER.sub("#", status.message), "conditions": conditions})


def _hide_numbers(message: str, *, after: str) -> str:
    kept = after if message.startswith(after) else ""
    return kept + _NUMBER.sub("#", message[len(kept) :])


def accept(job: TrainingJob, now: float, rules: Rules, pods: Sequence[PodRecord] = ()) -> JobStatus:
    """The status with startTime and the condition Created. The message of the condition names parts of the spec that
    have no effect."""
    status, at = job.status, to_rfc3339(now)
    # A suspended job without pods has not started.
    if not status.start_time and (pods or not job.suspend):
        # The first status may have been deferred until the first pod was seen: the job started with that pod.
        began = min((pod.created_at for pod in pods if pod.created_at is not None), default=now)
        status = status.model_copy(update={"start_time": to_rfc3339(min(began, now))})
    parts = (ACCEPTED, describe_left_out(job), _overruled(job), race_to_end(job), _ignored(job, rules))
    message = "; ".join(text for text in parts if text)
    status = set_condition(status, "Created", True, "Accepted", message, now=at, generation=job.generation)
    return note_errors(job, status, at)


def _overruled(job: TrainingJob) -> str:
    """Why an edit of a role's replicas has no effect: `kubectl scale` or an HPA has set spec.replicas."""
    for role in job.roles:
        asked = role.replicas if role.declared_replicas is None else role.declared_replicas
        if role.overruled not in (None, asked):
            own = f"spec.replicaSpecs.{role.name}.replicas"
            return f"{own} ({role.overruled}) does not count, as spec.replicas is set; scale the job, or remove that"
    return ""


def _ignored(job: TrainingJob, rules: Rules) -> str:
    """Fields of the job's kind that the operator does not support, so that users do not wait for an effect."""
    found = [*job.ignored, *ignored_tenancy(job.annotations), *ignored_fields(job, rules)]
    return f"not acted on: {', '.join(map(str, found))}" if found else ""


def numbers(job: TrainingJob, status: JobStatus, views: Mapping[str, RoleView], *, live: bool) -> JobStatus:
    update: dict[str, object] = {"replica_statuses": {n: phase.replica_status(v, live=live) for n, v in views.items()}}
    view = views.get(job.scale_role or "")
    if view is None:
        # Clear the numbers of an earlier scale role: an edit of its bounds may have removed it.
        return status.model_copy(update={**update, "replicas": 0, "selector": ""})
    wanted = sum(r.pod is not None or (live and not r.final) for r in view.replicas)
    update |= {"replicas": wanted + len(view.surplus), "selector": selector(role_labels(job, view.role.name))}
    return status.model_copy(update=update)


def close_numbers(job: TrainingJob, status: JobStatus, end: EndPhase) -> JobStatus:
    """The final numbers of each role. No pod of an ended job counts as waiting or running, because no later pass
    corrects the numbers."""
    # For a guest kind they are what its own operator leaves: a pod that ran counts as succeeded after a success, and as
    # running after a failure (training-operator and KubeDL, `ReconcileJobs`).
    closed: dict[str, ReplicaStatus] = {}
    for role, counts in status.replica_statuses.items():
        left = {"pending": 0, "scheduled": 0, "restarting": 0}
        if not job.is_guest:
            left["active"] = 0
        elif end == "Succeed":
            left |= {"active": 0, "succeeded": counts.succeeded + counts.active}
        closed[role] = counts.model_copy(update=left)
    return status.model_copy(update={"replica_statuses": closed})
