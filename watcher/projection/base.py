"""The result of projecting an object: the change for the store, and facts for the watcher itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tjworker.api.kinds.base import Named
from tjworker.api.observed import NodeRecord
from tjworker.api.pod_records import Deletion
from tjworker.base import JobKey
from tjworker.store.projection import Change

NO_KEY = JobKey("")


@dataclass(frozen=True, slots=True)
class Projected:
    change: Change
    node: str = ""
    """The node of a pod that has one."""
    deletion: Deletion | None = None
    """What to remember of a pod that is being deleted."""
    node_record: NodeRecord | None = None
    """The record of a node."""
    named: Named | None = None
    """The object that a job waits for."""
    phase: str = ""
    """The phase of a job; '' before its first pass."""
    restarts: int = 0
    """The restarts of a job, as its status counts them."""
    decisive: bytes = b""
    """A digest of everything in a job that a pass decides on. A change that keeps the digest needs no pass."""
    expires_at: float | None = None
    """When the TTL of a finished job has passed, in Unix seconds."""


def deletion(change: Change, rv: int) -> Change:
    """The change that removes the object of `change` from the projection."""
    return Change(change.key, change.resource, change.name, rv, None, is_job=change.is_job)
