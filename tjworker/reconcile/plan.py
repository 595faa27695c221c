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

from tjworker.api.resources import PODS
from tjworker.api.status import JobStatus
from tjworker.base import GroupResource

ALL_PODS = f"{PODS}/*"
"""In `Plan.confirm`: every pod of the job."""


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
    needed: bool = False
    """Pods mount it: the creates behind it wait until it is there. No watch shows it. One of its name that no other
    object owns is as good as made."""
    beside: bool = False
    """It stands beside the job, which does not need it: refused, it is told, and holds nothing up."""


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
    untold: JobStatus | None = None
    """Instead of `status`: what the first pod of a new job makes true and its news will tell, or the next pass. The
    writes then need no other proof of their view, while that is a moment old (docs/adr/0030)."""
    writes: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    log_tails: tuple[LogTail, ...] = ()
    """Logs to read before the status write (best effort, bounded)."""
    ask_nodes: tuple[str, ...] = ()
    """Nodes against which the view says something that only the API server's own word may be acted on: whoever carries
    the plan out asks for them first, and has it decided again with the answers in `Observed.live`. A plan that is
    carried out all the same harms nobody: it takes these nodes for healthy."""
    ask_every_node: bool = False
    """What it says rests on how much room the whole cluster has: whoever carries the plan out reads all nodes of the
    projection first, and has it decided again with them in `Observed.every_node`. Without them it says less."""
    confirm: tuple[str, ...] = ()
    """`<resource>/<name>`, or `pods/*`: what this plan rests on and only the API server's own word will do for. It must
    not be carried out before that is in `Observed.confirmed` and it has been decided again."""
    requeue_after_seconds: float | None = None
    decisions: tuple[str, ...] = ()
    """One line for each thing decided, for the log and for `tj`."""

    @property
    def empty(self) -> bool:
        return self.status is None and not self.writes and not self.events
