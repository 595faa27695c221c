"""Pods: what their containers do and why, where they run, when they were made and deleted. PURE.

Never kept: values of environment variables.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tjworker.api.observed import ContainerRecord, PodRecord
from watcher.projection.base import MESSAGE_CHARS, Json, our_labels


def pod_record(obj: Json, meta: Json, owner_uid: str) -> PodRecord:
    spec = obj.get("spec") or {}
    status = obj.get("status") or {}
    ready = scheduled = False
    unschedulable = disruption = disruption_message = ""
    for condition in status.get("conditions") or ():
        kind, true = condition["type"], condition["status"] == "True"
        if kind == "Ready":
            ready = true
        elif kind == "PodScheduled":
            scheduled = true
            if not true:
                unschedulable = (condition.get("message") or condition.get("reason") or "")[:MESSAGE_CHARS]
        elif kind == "DisruptionTarget" and true:
            disruption = condition.get("reason") or ""
            disruption_message = (condition.get("message") or "")[:MESSAGE_CHARS]
    node = spec.get("nodeName") or ""
    containers = [_container(entry, init=True) for entry in status.get("initContainerStatuses") or ()]
    containers += [_container(entry, init=False) for entry in status.get("containerStatuses") or ()]
    return PodRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        owner_uid=owner_uid,
        labels=our_labels(meta),
        phase=status.get("phase") or "Pending",
        reason=status.get("reason") or "",
        message=(status.get("message") or "")[:MESSAGE_CHARS],
        node=node,
        pod_ip=status.get("podIP") or "",
        created_at=meta.get("creationTimestamp") or "",
        deleted_at=meta.get("deletionTimestamp") or "",
        deletion_asked_at=_deletion_asked_at(meta),
        started_at=status.get("startTime") or "",
        ready=ready,
        scheduled=scheduled or bool(node),
        unschedulable="" if node else unschedulable,
        disruption=disruption,
        disruption_message=disruption_message,
        containers=tuple(containers),
        gpus=_extended(spec),
    )


def _container(entry: Json, *, init: bool) -> ContainerRecord:
    state = entry.get("state") or {}
    sick = tuple(
        device["resourceID"]
        for resource in entry.get("allocatedResourcesStatus") or ()
        for device in resource.get("resources") or ()
        if device.get("health") == "Unhealthy"
    )
    common = {
        "name": entry["name"],
        "restarts": entry.get("restartCount", 0),
        "ready": bool(entry.get("ready")),
        "init": init,
        "unhealthy_devices": sick,
    }
    if ended := state.get("terminated"):
        return ContainerRecord(
            state="terminated",
            reason=ended.get("reason") or "",
            message=(ended.get("message") or "")[-MESSAGE_CHARS:],
            exit_code=ended.get("exitCode"),
            signal=ended.get("signal") or 0,
            started_at=ended.get("startedAt") or "",
            finished_at=ended.get("finishedAt") or "",
            **common,
        )
    if running := state.get("running"):
        return ContainerRecord(state="running", started_at=running.get("startedAt") or "", **common)
    waiting = state.get("waiting") or {}
    return ContainerRecord(
        state="waiting",
        reason=waiting.get("reason") or "",
        message=(waiting.get("message") or "")[:MESSAGE_CHARS],
        **common,
    )


def _deletion_asked_at(meta: Json) -> str:
    end = meta.get("deletionTimestamp")
    if not end:
        return ""
    asked = datetime.fromisoformat(end) - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
    return asked.strftime("%Y-%m-%dT%H:%M:%SZ")


def _extended(spec: Json) -> dict[str, int]:
    """Extended resources (nvidia.com/gpu): whole numbers with a domain in their name. Kubernetes refuses other
    values."""
    held: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
            if "/" in name and str(value).isdigit():
                held[name] = held.get(name, 0) + int(value)
    return held
