"""The status of other operators' job kinds, in the form that training-operator and KubeDL write it, and its schema. A
`Style` has the differences. Pure.

The operator never reads this form back. Its own status of a job is in the field `operator`, which the clients of these
kinds ignore (ADR 28).
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
"""Types of conditions in these kinds, in the order of a job's life. Conditions of the same time have this order."""
_ENDS = ("Suspended", "Succeeded", "Failed")
"""Types of conditions that set Running to False."""
RESUMED = "Resumed"
"""Key in `Style.texts` for the condition Suspended when it is False."""


class GuestCondition(CamelModel):
    """A condition of the job."""

    type: str = Field(description="Created, Running, Restarting, Suspended, Succeeded or Failed")
    status: str = Field(description="True, False or Unknown")
    reason: str | None = Field(None, description="reason, as one word: the kind and the state")
    message: str | None = Field(None, description="reason, for people")
    last_update_time: str | None = Field(None, description="same as lastTransitionTime")
    last_transition_time: str | None = Field(None, description="when status last changed")


class GuestReplicaStatus(CamelModel):
    """Pods of one role by state."""

    active: int | None = Field(None, ge=0, description="running pods; in a failed job, pods that ran at its end")
    succeeded: int | None = Field(
        None, ge=0, description="succeeded pods; in a succeeded job, also pods that ran at its end"
    )
    failed: int | None = Field(None, ge=0, description="failed pods that are not replaced, or not yet")


class GuestStatus(CamelModel):
    """State of the job, as its own operator reports it."""

    conditions: list[GuestCondition] = Field(default_factory=list, description="conditions of the job, newest last")
    start_time: str | None = Field(
        None, description="when the job first started: when the operator accepted it, or first resumed it"
    )
    completion_time: str | None = Field(None, description="when the job reached its end")
    last_reconcile_time: str | None = Field(None, description="when the status last changed")
    operator: JobStatus = Field(
        JobStatus(),
        description="status of this operator: phase, failures with the end of their logs, restarts by cause",
    )


class Style(ABC):
    """The differences between operators."""

    @abstractmethod
    def reason_prefix(self, kind: str) -> str:
        """The first part of each reason, such as `PyTorchJob` in PyTorchJobRunning."""

    @abstractmethod
    def texts(self, job: Parsed) -> Mapping[str, str]:
        """Condition type -> message of its operator when the condition is True; also for `RESUMED`."""

    @abstractmethod
    def more_of_role(self, job: TrainingJob, role: Role, counts: ReplicaStatus) -> Mapping[str, object]:
        """Further fields of a role, besides the counts."""

    def is_uncounted_at_the_end(self, job: TrainingJob, role: Role) -> bool:
        """True if its operator no longer counts the pods of this role after the job's end."""
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
    """The conditions to write. The last one is the newest that is True: the column State shows it."""
    by_type = {c.type: c for c in status.conditions}
    shown = [by_type[type_] for type_ in _SHOWN if type_ in by_type and not _is_left_out(by_type[type_], by_type)]
    waits = not any(c.status == "True" for c in shown if c.type != "Created")
    # Created comes first, unless the job waits: then no other condition is True.
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
            # A separate time would change with every pass and cost a write of the status each time.
            "lastUpdateTime": c.last_transition_time,
            "lastTransitionTime": c.last_transition_time,
        }
        for c in shown
    ]


def default_texts(kind: str, name: str) -> dict[str, str]:
    """Messages that most controllers of other operators share. `name`: the job's name in them."""
    return {
        "Created": f"{kind} {name} is created.",
        "Running": f"{kind} {name} is running.",
        "Suspended": f"{kind} {name} is suspended.",
        RESUMED: f"{kind} {name} is resumed.",
        "Succeeded": f"{kind} {name} is successfully completed.",
    }


def _is_left_out(condition: Condition, by_type: Mapping[str, Condition]) -> bool:
    """True for a condition that its operator would not show. It shows either Running or Restarting, and removes
    Restarting after the restart. A job that does not run yet has no condition Running; the field `operator` says what
    it waits for."""
    if condition.type == "Restarting":
        return condition.status != "True"
    if condition.type != "Running":
        return False
    restarting = by_type.get("Restarting")
    return (restarting is not None and restarting.status == "True") or (
        condition.status != "True" and _why_not_running(by_type) is None
    )


def _why_not_running(by_type: Mapping[str, Condition]) -> str | None:
    """The type of the condition that set Running to False, if any."""
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
    # Programs may compare the message with that of the kind's own operator, so this operator's notes come after it.
    message = texts.get(condition.type, condition.message)
    notes = condition.message.removeprefix(ACCEPTED).lstrip("; ") if condition.type == "Created" else ""
    return f"{message} {notes}" if notes else message


def _replica_statuses(style: Style, job: TrainingJob, status: JobStatus) -> dict[str, Any]:
    found = {}
    for role in job.roles:
        counts = status.replica_statuses.get(role.name)
        if counts is None:
            continue
        if status.ended and style.is_uncounted_at_the_end(job, role):
            counts = ReplicaStatus()
        numbers = {"active": counts.active, "succeeded": counts.succeeded, "failed": counts.failed}
        shown = {**numbers, **style.more_of_role(job, role, counts)}
        # Zeros are absent, as Go's `omitempty` leaves them out.
        found[role.name] = {name: value for name, value in shown.items() if value}
    return found


def state_elsewhere(status: object) -> str:
    """The state of a job by a status that another operator wrote: `Succeeded`, `Failed`, `begun`, or ''.

    '' means that the job has no pods there: it is suspended (in Kueue's queue), or merely accepted. With its first pods
    the other operator writes `replicaStatuses`, and in most kinds `startTime`. Pods that still wait for a node count as
    begun: this operator's pods would have the same names.
    """
    seen = mapping(status)
    listed = seen.get("conditions")
    found = [mapping(c) for c in listed if isinstance(c, Mapping)] if isinstance(listed, list) else []
    true = {text(c.get("type")) for c in found if c.get("status") == "True"}
    for end in ("Failed", "Succeeded"):
        if end in true:
            return end
    roles = [mapping(role) for role in mapping(seen.get("replicaStatuses")).values()]
    if "Suspended" in true and not any(number(role.get("active")) for role in roles):
        return ""
    return "begun" if roles or seen.get("startTime") or true - {"Created", "Suspended"} else ""
