"""A pod as the API server has it, to what decisions need of it: what its containers do and why, where it runs, when it
was made and deleted. Pure.

The watcher projects pods with it; a worker reads one itself before it believes a failure.

Never kept: values of environment variables.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from tjworker.api.labels import TRACKING_FINALIZER, of_object
from tjworker.api.node_requests import pod_requests
from tjworker.api.observed import CONTAINER_STATUS_UNKNOWN, ContainerRecord, PodRecord
from tjworker.api.podgroups import pod_group_of
from tjworker.api.quantity import saturated, whole
from tjworker.api.timefmt import from_rfc3339, to_rfc3339
from tjworker.base import Json

MESSAGE_CHARS = 1024


class Deletion(NamedTuple):
    """What a pod said of its deletion, for as long as it is there."""

    uid: str
    asked_at: str
    was_told_to_go: bool


def deletion_of(pod: PodRecord) -> Deletion | None:
    """What to remember of it; None while there is nothing."""
    return Deletion(pod.uid, pod.deletion_asked_at, pod.was_told_to_go) if pod.deleted_at else None


def pod_record(obj: Json, meta: Json, owner_uid: str, before: Deletion | None = None) -> PodRecord:
    """`before`: what the pod of this name said of its deletion when it was read last. The pod itself forgets that: when
    its kubelet confirms the deletion, the API server sets the grace period to 0, and deletionTimestamp to now
    (`BeforeDelete` of k8s.io/apiserver). It may be read so, for as long as a finalizer holds it or for a moment."""
    spec = obj.get("spec") or {}
    status = obj.get("status") or {}
    ready = scheduled = False
    scheduled_at = unschedulable = disruption = disruption_message = ""
    for condition in status.get("conditions") or ():
        kind, true = condition["type"], condition["status"] == "True"
        if kind == "Ready":
            ready = true
        elif kind == "PodScheduled":
            scheduled = true
            if true:
                scheduled_at = condition.get("lastTransitionTime") or ""
            else:
                unschedulable = (condition.get("message") or condition.get("reason") or "")[:MESSAGE_CHARS]
        elif kind == "DisruptionTarget" and true:
            disruption = condition.get("reason") or ""
            disruption_message = (condition.get("message") or "")[:MESSAGE_CHARS]
    node = spec.get("nodeName") or ""
    return PodRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        owner_uid=owner_uid,
        labels=of_object(meta),
        phase=status.get("phase") or "Pending",
        reason=status.get("reason") or "",
        message=(status.get("message") or "")[:MESSAGE_CHARS],
        node=node,
        pod_ip=status.get("podIP") or "",
        created_at=meta.get("creationTimestamp") or "",
        **_deletion(meta, before),
        uncounted=meta.get("finalizers") == [TRACKING_FINALIZER],
        started_at=status.get("startTime") or "",
        ready=ready,
        # A pod that names its node itself never meets the scheduler, and has no such condition.
        scheduled=scheduled or bool(node),
        scheduled_at=scheduled_at,
        # The condition may be older than the node.
        unschedulable="" if node else unschedulable,
        disruption=disruption,
        disruption_message=disruption_message,
        containers=_containers(status),
        gpus=_extended(spec),
        pod_group=pod_group_of(meta, spec),
        requests=_requests(spec, status),
        priority=saturated(spec.get("priority") or 0),
    )


def _requests(spec: Json, status: Json) -> dict[str, int]:
    try:
        asked = pod_requests(spec, status)
    except (ValueError, TypeError, AttributeError):
        return {}  # no API server lets such a pod in
    amounts = {"cpu": asked.cpu_milli, "memory": asked.memory_bytes, **dict(asked.extended)}
    return {name: saturated(amount) for name, amount in amounts.items() if amount}


def _containers(status: Json) -> tuple[ContainerRecord, ...]:
    failed = status.get("phase") == "Failed"
    found = [_container(entry, init=True, failed=failed) for entry in status.get("initContainerStatuses") or ()]
    found += [_container(entry, init=False, failed=failed) for entry in status.get("containerStatuses") or ()]
    return tuple(found)


def _lost(entry: Json) -> Json | None:
    """How a container ended that its runtime no longer knows. The kubelet shows it as waiting, though its pod has
    failed and nothing will start any more (`convertToAPIContainerStatuses`)."""
    last = (entry.get("lastState") or {}).get("terminated") or {}
    return last if last.get("reason") == CONTAINER_STATUS_UNKNOWN else None


def _container(entry: Json, *, init: bool, failed: bool) -> ContainerRecord:
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
    if ended := state.get("terminated") or (_lost(entry) if failed else None):
        return ContainerRecord(
            state="terminated",
            reason=ended.get("reason") or "",
            # The end of a log says why the program ended.
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


def _deletion(meta: Json, before: Deletion | None) -> dict[str, Any]:
    end = meta.get("deletionTimestamp")
    if not end:
        return {}
    granted = meta.get("deletionGracePeriodSeconds") or 0
    asked_at, told = deletion_asked_at(end, granted), granted > 0
    # A pod of the same name that was made again was not asked to go.
    if before is not None and before.uid == meta["uid"]:
        asked_at, told = before.asked_at, told or before.was_told_to_go
    return {"deleted_at": end, "deletion_asked_at": asked_at, "deletion_grace_seconds": granted, "was_told_to_go": told}


def deletion_asked_at(deletion_timestamp: str, grace_seconds: int) -> str:
    """When a deletion was requested, RFC 3339; '' without a time. `deletionTimestamp` is the end of the grace
    period."""
    at = from_rfc3339(deletion_timestamp)
    return "" if at is None else to_rfc3339(at - _added_seconds(grace_seconds))


def _added_seconds(grace_seconds: int) -> float:
    """What the API server has added to the time of the request. It counts in nanoseconds of 64 bits, so that a grace
    period of more than 292 years comes round (`BeforeDelete` of k8s.io/apiserver)."""
    return ((grace_seconds * 10**9 + 2**63) % 2**64 - 2**63) / 10**9


def _extended(spec: Json) -> dict[str, int]:
    """Extended resources (nvidia.com/gpu): whole numbers (`1k` is one) with a domain in their name."""
    held: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
            if "/" in name:
                with suppress(ValueError):
                    held[name] = saturated(held.get(name, 0) + whole(value))
    return held
