"""The status of other operators' job kinds: what training-operator and KubeDL write, for the programs that read it; and
its schema. What differs is a `Style`. Pure.

Nothing is remembered in it: what the operator must know of a job stands beside it, in the field `operator`, which the
clients of these kinds ignore (ADR 28).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from tjworker.api.kinds.base import CamelModel, Parsed, number, text
from tjworker.api.model import Role, TrainingJob
from tjworker.api.status import ACCEPTED, Condition, JobStatus, ReplicaStatus
from tjworker.base import mapping

# The column of both operators. A column is a plain JSONPath, which cannot choose by time or status, so the newest
# condition must be the last of the list.
STATE: dict[str, Any] = {"name": "State", "type": "string", "jsonPath": ".status.conditions[-1:].type"}
AGE: dict[str, Any] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
MESSAGE: dict[str, Any] = {
    "name": "Message",
    "type": "string",
    "jsonPath": ".status.operator.message",
    "priority": 1,
    "description": "why the job is in its state",
}
_SHOWN = ("Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed")
"""Types of conditions that they have, in the order of a life. Those of one moment stand in it."""
_ENDS = ("Suspended", "Succeeded", "Failed")
"""Types of conditions with which Running becomes False there."""
RESUMED = "Resumed"
"""Among `Style.texts`: of the condition Suspended when it is False."""


class GuestCondition(CamelModel):
    """A condition of the job."""

    type: str = Field(description="Created, Running, Restarting, Suspended, Succeeded or Failed")
    status: str = Field(description="True, False or Unknown")
    reason: str | None = Field(None, description="why, as one word: the kind and what happened")
    message: str | None = Field(None, description="why, for people")
    last_update_time: str | None = Field(None, description="as lastTransitionTime")
    last_transition_time: str | None = Field(None, description="when status last changed")


class GuestReplicaStatus(CamelModel):
    """How the pods of one role stand."""

    active: int | None = Field(None, ge=0, description="running pods; in a failed job, those that ran at its end")
    succeeded: int | None = Field(
        None, ge=0, description="succeeded pods; in a succeeded job, also those that ran at its end"
    )
    failed: int | None = Field(None, ge=0, description="failed pods that are not replaced, or not yet")


class GuestStatus(CamelModel):
    """How the job stands, as its own operator tells it."""

    conditions: list[GuestCondition] = Field(default_factory=list, description="conditions of the job, newest last")
    start_time: str | None = Field(
        None, description="when the job first started: when the operator accepted it, or first resumed it"
    )
    completion_time: str | None = Field(None, description="when the job reached its end")
    last_reconcile_time: str | None = Field(None, description="when the status last changed")
    operator: JobStatus = Field(
        JobStatus(),
        description="what this operator adds: phase, failures with the end of their logs, restarts by cause",
    )


class Style(ABC):
    """What differs by operator."""

    @abstractmethod
    def reason_prefix(self, kind: str) -> str:
        """The first part of each reason, as `PyTorchJob` in PyTorchJobRunning."""

    @abstractmethod
    def texts(self, job: Parsed) -> Mapping[str, str]:
        """What its operator writes as the message of each type of condition that is True, and of `RESUMED`."""

    @abstractmethod
    def more_of_role(self, job: TrainingJob, role: Role, counts: ReplicaStatus) -> Mapping[str, object]:
        """What stands beside the counts of a role."""

    def is_uncounted_at_the_end(self, job: TrainingJob, role: Role) -> bool:
        """Its operator no longer counts the pods of this role once the job has ended."""
        return False


def write_status(style: Style, job: Parsed, status: JobStatus) -> dict[str, Any]:
    written: dict[str, Any] = {"conditions": _conditions(style, job, status)}
    if isinstance(job, TrainingJob) and (replicas := _replica_statuses(style, job, status)):
        written["replicaStatuses"] = replicas
    times = {
        "startTime": status.start_time,
        "completionTime": status.completion_time,
        "lastReconcileTime": status.last_reconcile_time,
    }
    return written | {name: time for name, time in times.items() if time}


def _conditions(style: Style, job: Parsed, status: JobStatus) -> list[dict[str, str]]:
    """The last one is what the column State shows: of those that are true the newest."""
    by_type = {c.type: c for c in status.conditions}
    shown = [by_type[type_] for type_ in _SHOWN if type_ in by_type and not _is_left_out(by_type[type_], by_type)]
    waits = not any(c.status == "True" for c in shown if c.type != "Created")
    # Created comes first, as it came about, but for a job that waits: then nothing else is true.
    # Python's sort is stable: the second sort keeps the order in time within its groups.
    shown.sort(key=lambda c: (c.last_transition_time, _SHOWN.index(c.type)))
    shown.sort(key=lambda c: (c.type != "Created" or waits, c.status == "True"))
    texts = style.texts(job)
    return [
        {
            "type": c.type,
            "status": c.status,
            "reason": _reason(style.reason_prefix(job.kind), c, by_type),
            "message": _message(texts, c),
            # A time of its own would move with every pass, and so cost a write of the status each time.
            "lastUpdateTime": c.last_transition_time,
            "lastTransitionTime": c.last_transition_time,
        }
        for c in shown
    ]


def called(kind: str, name: str) -> dict[str, str]:
    """Messages as most of their controllers have them. `name`: how they call the job."""
    return {
        "Created": f"{kind} {name} is created.",
        "Running": f"{kind} {name} is running.",
        "Suspended": f"{kind} {name} is suspended.",
        RESUMED: f"{kind} {name} is resumed.",
        "Succeeded": f"{kind} {name} is successfully completed.",
    }


def _is_left_out(condition: Condition, by_type: Mapping[str, Condition]) -> bool:
    """Their operators have either Running or Restarting, and forget a restart that is over. A job that does not run yet
    has no condition Running: what it waits for stands in the field `operator`."""
    if condition.type == "Restarting":
        return condition.status != "True"
    if condition.type != "Running":
        return False
    restarting = by_type.get("Restarting")
    return (restarting is not None and restarting.status == "True") or (
        condition.status != "True" and _why_not_running(by_type) is None
    )


def _why_not_running(by_type: Mapping[str, Condition]) -> str | None:
    """The type of the condition with which Running has become False."""
    return next((type_ for type_ in _ENDS if type_ in by_type and by_type[type_].status == "True"), None)


def _reason(prefix: str, condition: Condition, by_type: Mapping[str, Condition]) -> str:
    # training-operator's reason for a spec that it refuses.
    if condition.reason == "InvalidSpec":
        return f"{prefix}FailedValidation"
    if condition.status == "True":
        return f"{prefix}{condition.type}"
    if condition.type == "Suspended":
        return f"{prefix}{RESUMED}"
    if condition.type != "Running":
        return condition.reason
    return f"{prefix}{'Suspended' if _why_not_running(by_type) == 'Suspended' else 'Running'}"


def _message(texts: Mapping[str, str], condition: Condition) -> str:
    if condition.status != "True":
        return texts[RESUMED] if condition.type == "Suspended" else condition.message
    # Programs may compare the message with that of the kind's own operator; what this one adds comes behind.
    told = texts.get(condition.type, condition.message)
    more = condition.message.removeprefix(ACCEPTED).lstrip("; ") if condition.type == "Created" else ""
    return f"{told} {more}" if more else told


def _replica_statuses(style: Style, job: TrainingJob, status: JobStatus) -> dict[str, Any]:
    found = {}
    for role in job.roles:
        counts = status.replica_statuses.get(role.name)
        if counts is None:
            continue
        if status.ended and style.is_uncounted_at_the_end(job, role):
            counts = ReplicaStatus()
        numbers = {"active": counts.active, "succeeded": counts.succeeded, "failed": counts.failed}
        told = {**numbers, **style.more_of_role(job, role, counts)}
        # Zeros are absent, as Go's `omitempty` leaves them out.
        found[role.name] = {name: value for name, value in told.items() if value}
    return found


def of_another_operator(status: object) -> str:
    """What a status without our memory says of the job: `Succeeded` or `Failed`, `begun`, or nothing.

    A job waits there, and has no pods, while it is suspended (in Kueue's queue) or nobody has gone further than to
    accept it. The first pass that makes pods writes `replicaStatuses`, and in most kinds `startTime`. Pods of theirs
    that still wait for a node count as begun: they would take the names of ours.
    """
    seen = mapping(status)
    told = seen.get("conditions")
    found = [mapping(c) for c in told if isinstance(c, Mapping)] if isinstance(told, list) else []
    true = {text(c.get("type")) for c in found if c.get("status") == "True"}
    for end in ("Failed", "Succeeded"):
        if end in true:
            return end
    roles = [mapping(role) for role in mapping(seen.get("replicaStatuses")).values()]
    if "Suspended" in true and not any(number(role.get("active")) for role in roles):
        return ""
    return "begun" if roles or seen.get("startTime") or true - {"Created", "Suspended"} else ""
