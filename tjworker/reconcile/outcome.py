"""From what was decided to the Plan of the pass: numbers, phase, the one status write, the event. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tjworker.api.indices import MAX_INDEX, parse_indices
from tjworker.api.model import TrainingJob
from tjworker.api.naming import role_labels, selector
from tjworker.api.observed import PodRecord
from tjworker.api.status import POD_NOT_GONE, Condition, EndPhase, JobStatus, Phase, ReplicaStatus, RoleAttempts
from tjworker.api.tenancy import tenancy_trouble
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile import phase
from tjworker.reconcile.conditions import see_generation, set_condition
from tjworker.reconcile.failures import ended_at
from tjworker.reconcile.gangs import not_acted_on
from tjworker.reconcile.peers import tell_left_out
from tjworker.reconcile.plan import Event, EventType, Plan, Write
from tjworker.reconcile.replicas import RoleView
from tjworker.reconcile.rules import Rules
from tjworker.reconcile.spec_errors import note_errors

GATHER_SECONDS = 1.0
_NUMBER = re.compile("[0-9]+")

# Phases whose entering is told by an event. Pending, Creating and Terminating are passed through within seconds: an
# event each would be three more requests in the life of a short job, to tell what the next one tells too. A job that
# stays in one of them says why (`_stuck`): no node, an image that is not there, a child that is refused, a pod that
# does not go.
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
    job: TrainingJob, status: JobStatus, new: Phase, at: str, *, writes: Sequence[Write], message: str
) -> Plan:
    """The Plan of a pass: the status if it differs, with its clock set; an event if the phase does."""
    status = see_generation(
        _without_old_targets(job, status.model_copy(update={"phase": new})), job.generation
    ).summarised()
    changed = status != job.status and not _only_numbers_moved(job.status, status)
    if changed:
        status = status.model_copy(update={"last_reconcile_time": at})
    moved = new != job.status.phase
    event_type = _EVENTS.get(new) if moved else None
    events: tuple[Event, ...] = ()
    if event_type is not None:
        events = (Event(event_type, new, message[:1024]),)
    elif changed:
        events = _stuck(job.status, status)
    decisions = (f"phase {job.status.phase or 'none'} -> {new}: {message}",) if moved else ()
    return Plan(status=status if changed else None, writes=tuple(writes), events=events, decisions=decisions)


def gather_seconds(old: JobStatus, new: JobStatus | None, views: Mapping[str, RoleView], now: float) -> float:
    """How long what nobody waits for may gather before it is written, as a batch Job's numbers do: which pods run,
    how many have come to what. For a second after the last write, and after the first success that it would tell.
    Phases, conditions, ends, restarts and failures are told at once, and so is a success that would be gone with its
    pod: all but those that the finalizer of a batch Job holds. The next pass comes to the same numbers, or newer ones,
    so that a crash in between loses nothing."""
    if new is None or old.phase != new.phase or _uncounted(old) != _uncounted(new):
        return 0.0
    untold = [pod for view in views.values() for pod in _untold(old, view)]
    if any(pod.deleted_at or not pod.uncounted for pod in untold):
        return 0.0
    ends = (t for t in map(ended_at, untold) if t is not None)
    left = (t + GATHER_SECONDS - now for t in (from_rfc3339(old.last_reconcile_time), min(ends, default=None)) if t)
    return max((s for s in left if 0 < s <= GATHER_SECONDS), default=0.0)  # above: of a clock that runs ahead


def _untold(old: JobStatus, view: RoleView) -> list[PodRecord]:
    """Pods whose success is not on record."""
    if not view.count("succeeded"):
        return []
    told = parse_indices(old.attempts.roles.get(view.role.name, RoleAttempts()).completed, MAX_INDEX)
    return [r.pod for r in view.replicas if r.state == "succeeded" and r.index not in told and r.pod is not None]


def _uncounted(status: JobStatus) -> JobStatus:
    conditions = tuple(c.model_copy(update={"message": ""}) if c.type == "Running" else c for c in status.conditions)
    told = {"ran": "", "made": "", "started": "", "completed": ""}
    roles = {name: a.model_copy(update=told) for name, a in status.attempts.roles.items()}
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
    """A target that was set aside (`TrainingJob.with_targets`) must not come back by itself."""
    followed = {role.name for role in job.roles if role.declared_replicas is not None}
    if status.targets.keys() <= followed and status.targets_beside.keys() <= followed:
        return status
    kept = {name: getattr(status, name) for name in ("targets", "targets_beside")}
    return status.model_copy(
        update={name: {role: n for role, n in values.items() if role in followed} for name, values in kept.items()}
    )


def _stuck(old: JobStatus, new: JobStatus) -> tuple[Event, ...]:
    """One event when the reason that blocks a job first appears: the scheduler has refused it, an image is missing."""
    was, now = old.condition("Running"), new.condition("Running")
    if now is None or now.reason == new.phase:
        return ()
    if new.phase not in _WAITING and now.reason != POD_NOT_GONE:
        return ()
    if was is not None and was.reason == now.reason:
        return ()
    return (Event("Warning", now.reason, now.message),)


def _only_numbers_moved(old: JobStatus, new: JobStatus) -> bool:
    """While a pod waits, the scheduler counts nodes anew with every change in the cluster ("0/41 nodes are available:
    17 Insufficient cpu"). Other words are news, other numbers alone are not worth a write: the next write has them."""
    return old.phase == new.phase and _numberless(old) == _numberless(new)


def _numberless(status: JobStatus) -> JobStatus:
    conditions = tuple(
        c.model_copy(update={"message": _without_the_schedulers_numbers(c)}) if c.type == "Running" else c
        for c in status.conditions
    )
    return status.model_copy(update={"message": _NUMBER.sub("#", status.message), "conditions": conditions})


def _without_the_schedulers_numbers(waiting: Condition) -> str:
    """A gang that is too large is told by how much: those numbers are the news, and move with the nodes alone."""
    own, dot, told = ("", "", waiting.message)
    if waiting.reason == phase.GANG_TOO_LARGE:
        own, dot, told = waiting.message.partition(phase.FIRST_POD)
    return f"{own}{dot}{_NUMBER.sub('#', told)}"


def accept(job: TrainingJob, at: str, rules: Rules, pods: Sequence[PodRecord] = ()) -> JobStatus:
    """The first pass takes the job on. A job starts then, unless it is suspended and has no pods: with its first pod,
    where the status waited for the pods. What of the spec does not come about stands beside that, as the spec is
    now."""
    status = job.status
    if not status.start_time and (pods or not job.suspend):
        began = min((pod.created_at for pod in pods if pod.created_at), default=at)
        status = status.model_copy(update={"start_time": min(began, at)})
    told = ("the job is accepted", tell_left_out(job), _overruled(job), _ignored(job, rules))
    message = "; ".join(text for text in told if text)
    status = set_condition(status, "Created", True, "Accepted", message, now=at, generation=job.generation)
    return note_errors(job, status, at)


def _overruled(job: TrainingJob) -> str:
    """`kubectl scale` and an HPA set spec.replicas; an edit of the role's own number then moves nothing."""
    for role in job.roles:
        asked = role.replicas if role.declared_replicas is None else role.declared_replicas
        if role.overruled not in (None, asked):
            own = f"spec.replicaSpecs.{role.name}.replicas"
            return f"{own} ({role.overruled}) does not count, as spec.replicas is set; scale the job, or remove that"
    return ""


def _ignored(job: TrainingJob, rules: Rules) -> str:
    """What the job's kind has, and nothing acts on yet: who sets it must not wait for it."""
    trouble = tenancy_trouble(job.annotations)
    found = [*job.ignored, *([trouble] if trouble else []), *not_acted_on(job, rules)]
    return f"not acted on: {', '.join(found)}" if found else ""


def numbers(job: TrainingJob, status: JobStatus, views: Mapping[str, RoleView], *, live: bool) -> JobStatus:
    update: dict[str, object] = {"replica_statuses": {n: phase.replica_status(v, live=live) for n, v in views.items()}}
    view = views.get(job.scale_role or "")
    if view is None:  # it may have had one, before an edit of its bounds
        return status.model_copy(update={**update, "replicas": 0, "selector": ""})
    wanted = sum(r.pod is not None or (live and not r.final) for r in view.replicas)
    update |= {"replicas": wanted + len(view.surplus), "selector": selector(role_labels(job, view.role.name))}
    return status.model_copy(update=update)


def close_numbers(job: TrainingJob, status: JobStatus, end: EndPhase) -> JobStatus:
    """The last numbers of each role: nobody looks at the pods of an ended job any more, so they count what has come to
    an end and claim of no pod that it waits or runs.

    Of another operator's kind they are those of the verdict, as its operator leaves them: what ran at a success counts
    as succeeded, what ran at a failure as running (training-operator and KubeDL, `ReconcileJobs`)."""
    closed: dict[str, ReplicaStatus] = {}
    for role, counts in status.replica_statuses.items():
        left = {"pending": 0, "scheduled": 0, "restarting": 0}
        if not job.is_guest:
            left["active"] = 0
        elif end == "Succeed":
            left |= {"active": 0, "succeeded": counts.succeeded + counts.active}
        closed[role] = counts.model_copy(update=left)
    return status.model_copy(update={"replica_statuses": closed})
