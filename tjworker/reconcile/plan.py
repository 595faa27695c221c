"""What reconcile decides. Data only. `tjworker.execution.executor` executes it in this order: status, writes, events.

The same input gives the same Plan, byte for byte. A Plan may be executed twice, or only up to any point, without harm:
creates have fixed names, deletes name a UID, patches name a resourceVersion, and the status write names the
resourceVersion on which it was decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tjworker.api.needs import Need
from tjworker.api.status import JobStatus
from tjworker.base import GroupResource


@dataclass(frozen=True, slots=True)
class Create:
    resource: GroupResource
    """Name of a row of `kube.resources.RESOURCES`."""
    name: str
    body: Mapping[str, Any]
    holds: Literal["", "ssh-key", "agent-key"] = ""
    """Kind of key that the executor generates for this Secret. A plan never holds a key. A Secret of this name that
    exists already is kept."""
    awaited: bool = False
    """The next pass waits for this object: its event is news, not an echo."""
    needed: bool = False
    """Pods mount this object, so the creates behind it wait until it exists. No watch shows it. An object of its name
    without an owner is kept and used."""
    optional: bool = False
    """The job does not need the object. If its creation is refused, the status reports that, and the rest goes on."""


@dataclass(frozen=True, slots=True)
class Delete:
    resource: GroupResource
    name: str
    uid: str
    grace_seconds: int | None = None
    """None: the object's own grace period. 0: at once, only for pods on a node that the API server has shown lost in
    this pass."""
    why: str = ""
    rv: int = 0
    """The version in which the object belonged to `owner_uid`; 0 if the API server has just shown it. If the owner
    reference was removed since, the object is not the job's any more, and stays."""
    owner_uid: str = ""


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch; `body.metadata` carries uid and resourceVersion as preconditions."""

    resource: GroupResource
    name: str
    body: Mapping[str, Any]
    why: str = ""


Write = Create | Delete | Patch


EventType = Literal["Normal", "Warning"]


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event about the job. Sent after the status write."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class LogTail:
    """Read the end of this container's log before its pod is deleted, for `status.failures`."""

    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Plan:
    status: JobStatus | None = None
    """The whole new status; None if it does not change."""
    deferred_status: JobStatus | None = None
    """Instead of `status`: the first status of a new job. A later pass writes it, usually when the event of the job's
    first pod comes. While the pass is young, its writes need no other proof of their view (docs/adr/0030)."""
    writes: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    log_tails: tuple[LogTail, ...] = ()
    """Logs to read before the status write (best effort, bounded)."""
    needs: tuple[Need, ...] = ()
    """Facts to read before the plan is executed, the cheapest kind first. With the answers in `Observed` the job is
    decided again. Without those that are `required` the plan must not be executed."""
    requeue_after_seconds: float | None = None
    decisions: tuple[str, ...] = ()
    """One line for each decision, for the log and for `tj`."""

    @property
    def empty(self) -> bool:
        # Not `deferred_status`: a plan has one only together with the creates of the first pods.
        return self.status is None and not self.writes and not self.events
