"""What reconcile decides: data only, carried out by `tjworker.executor` in this order: status, then writes, then
events.

The same input gives the same Plan, byte for byte. A Plan may be carried out twice, or only up to any point, without
harm: creates have fixed names, deletes name a UID, patches name a resourceVersion, the status write names the
resourceVersion it was decided on.
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
    """Of a Secret: what whoever carries the plan out makes and puts into it. No plan holds a key, and nobody reads one:
    that a Secret of this name is there already is as good as made."""
    awaited: bool = False
    """The next pass goes on when the watch shows it: what it shows is news and no echo."""
    optional: bool = False
    """The job does not need the object. If its creation is refused, the status reports that, and the rest goes on."""


@dataclass(frozen=True, slots=True)
class Delete:
    resource: GroupResource
    name: str
    uid: str
    grace_seconds: int | None = None
    """None: the object's own grace. 0: at once (only for pods on a node that the API server itself has called lost in
    this pass)."""
    why: str = ""
    rv: int = 0
    """The version in which it was seen as `owner_uid`'s; 0 where the API server itself has just shown it. It may have
    been let go since: then it is a stranger's, and stays."""
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
    """One Kubernetes Event on the job, sent after the status write that it tells of."""

    type: EventType
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class LogTail:
    """Ask for the end of this container's log before its pod goes; it lands in `status.failures`."""

    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class Plan:
    status: JobStatus | None = None
    """The whole new status, None when it stays as it is."""
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
    """One line for each thing decided, for the log and for `tj`."""

    @property
    def empty(self) -> bool:
        return self.status is None and not self.writes and not self.events
