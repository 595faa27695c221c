"""Records of Services, ReplicaSets and batch Jobs. Pure.

The watcher makes them for the projection. A worker makes one when it reads an object itself to confirm a failure.
"""

from __future__ import annotations

from collections.abc import Iterable

from tjworker.api.labels import of_object
from tjworker.api.observed import ServiceRecord, WorkloadRecord
from tjworker.api.timefmt import deletion_seconds, unix_seconds
from tjworker.base import Json

MESSAGE_CHARS = 1024


def service_record(obj: Json, meta: Json, owner_uid: str) -> ServiceRecord:
    ports = tuple(int(port["port"]) for port in (obj.get("spec") or {}).get("ports") or ())
    return ServiceRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        owner_uid=owner_uid,
        labels=of_object(meta),
        ports=ports,
        deleted_at=deletion_seconds(meta),
    )


def workload_record(obj: Json, meta: Json, owner_uid: str) -> WorkloadRecord:
    """The record of a ReplicaSet or batch Job. Reason and message come from the condition with which a Job ended, or
    from a ReplicaSet whose pods the API server refuses."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    # The number of a ReplicaSet is `replicas`, of a batch Job `parallelism`.
    desired = next((spec[name] for name in ("replicas", "parallelism") if name in spec), 0)
    conditions = status.get("conditions") or ()
    end, refused = _true(conditions, "Complete", "Failed"), _true(conditions, "ReplicaFailure")
    shown = end or refused
    return WorkloadRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        owner_uid=owner_uid,
        labels=of_object(meta),
        desired=desired,
        # A ReplicaSet has readyReplicas and replicas, a batch Job ready and active.
        ready=status.get("readyReplicas", status.get("ready", 0)) or 0,
        active=status.get("active", status.get("replicas", 0)) or 0,
        succeeded=status.get("succeeded") or 0,
        failed=status.get("failed") or 0,
        generation=meta.get("generation") or 0,
        observed_generation=status.get("observedGeneration") or 0,
        condition=end.get("type") or "",
        completed_at=unix_seconds(status.get("completionTime")),
        reason=shown.get("reason") or "",
        message=(shown.get("message") or "")[:MESSAGE_CHARS],
        deleted_at=deletion_seconds(meta),
    )


def _true(conditions: Iterable[Json], *types: str) -> Json:
    return next((c for c in conditions if c.get("type") in types and c.get("status") == "True"), {})
