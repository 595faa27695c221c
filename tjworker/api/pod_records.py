"""A pod as the API server has it, to what decisions need of it: what its containers do and why, where it runs, when it
was made and deleted. Pure.

The watcher projects pods with it; a worker reads one itself before it believes a failure.

Never kept: values of environment variables.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from tjworker.api.labels import TRACKING_FINALIZER, of_object
from tjworker.api.node_requests import NodeRequests, pod_requests
from tjworker.api.observed import CONTAINER_STATUS_UNKNOWN, ContainerRecord, PodRecord
from tjworker.api.podgroups import pod_group_of
from tjworker.api.quantity import saturated, whole
from tjworker.api.timefmt import deletion_seconds, unix_seconds
from tjworker.base import Json

MESSAGE_CHARS = 1024


class Deletion(NamedTuple):
    """A pod's request for deletion, kept while the pod exists."""

    uid: str
    asked_at: int | None
    was_told_to_go: bool


def deletion_of(pod: PodRecord) -> Deletion | None:
    """The pod's deletion; None if it is not being deleted."""
    return Deletion(pod.uid, pod.deletion_asked_at, pod.was_told_to_go) if pod.deleted_at is not None else None


def pod_record(
    obj: Json, meta: Json, owner_uid: str, before: Deletion | None = None, requests: NodeRequests | None = None
) -> PodRecord:
    """The record of a pod. `before`: the deletion of the pod of this name when it was last read. The pod loses it: when
    its kubelet confirms the deletion, the API server sets the grace period to 0 and deletionTimestamp to now
    (`BeforeDelete` of k8s.io/apiserver). A watch may show the pod like this, while a finalizer holds it.
    `requests`: the pod's, if the caller has computed them."""
    spec = obj.get("spec") or {}
    status = obj.get("status") or {}
    ready = scheduled = False
    scheduled_at = None
    unschedulable = disruption = disruption_message = ""
    for condition in status.get("conditions") or ():
        kind, true = condition["type"], condition["status"] == "True"
        if kind == "Ready":
            ready = true
        elif kind == "PodScheduled":
            scheduled = true
            if true:
                scheduled_at = unix_seconds(condition.get("lastTransitionTime"))
            else:
                unschedulable = (condition.get("message") or condition.get("reason") or "")[:MESSAGE_CHARS]
        # The disruption controller sets it to False when no deletion has followed within two minutes.
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
        # The kubelet's message of an eviction lists every container with its usage; a record in Redis and a condition
        # quote its beginning.
        message=(status.get("message") or "")[:MESSAGE_CHARS],
        node=node,
        created_at=unix_seconds(meta.get("creationTimestamp")),
        **_deletion(meta, before),
        # With a second finalizer the pod may stay for another reason, also after the Job has counted it.
        uncounted=meta.get("finalizers") == [TRACKING_FINALIZER],
        started_at=unix_seconds(status.get("startTime")),
        ready=ready,
        # The scheduler does not see a pod that names its node itself, so that it lacks the condition.
        scheduled=scheduled or bool(node),
        scheduled_at=scheduled_at,
        # The condition may be older than the node.
        unschedulable="" if node else unschedulable,
        disruption=disruption,
        disruption_message=disruption_message,
        containers=_containers(status),
        gpus=_extended(spec),
        pod_group=pod_group_of(meta, spec),
        requests=_amounts(requests) if requests is not None else _requests(spec, status),
        priority=saturated(spec.get("priority") or 0),
    )


def _requests(spec: Json, status: Json) -> dict[str, int]:
    try:
        asked = pod_requests(spec, status)
    except (ValueError, TypeError, AttributeError):
        return {}  # the API server accepts no such pod
    return _amounts(asked)


def _amounts(asked: NodeRequests) -> dict[str, int]:
    amounts = {"cpu": asked.cpu_milli, "memory": asked.memory_bytes, **dict(asked.extended)}
    return {name: saturated(amount) for name, amount in amounts.items() if amount}


def _containers(status: Json) -> tuple[ContainerRecord, ...]:
    failed = status.get("phase") == "Failed"
    found = [_container(entry, init=True, failed=failed) for entry in status.get("initContainerStatuses") or ()]
    found += [_container(entry, init=False, failed=failed) for entry in status.get("containerStatuses") or ()]
    return tuple(found)


def _lost(entry: Json) -> Json | None:
    """The end of a container that its runtime no longer knows. The kubelet shows it as waiting, although its pod has
    failed and will not start again (`convertToAPIContainerStatuses`)."""
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
            # The end of a message has the cause: it may be the end of the log.
            message=(ended.get("message") or "")[-MESSAGE_CHARS:],
            exit_code=ended.get("exitCode"),
            signal=ended.get("signal") or 0,
            started_at=unix_seconds(ended.get("startedAt")),
            finished_at=unix_seconds(ended.get("finishedAt")),
            **common,
        )
    if running := state.get("running"):
        return ContainerRecord(state="running", started_at=unix_seconds(running.get("startedAt")), **common)
    waiting = state.get("waiting") or {}
    return ContainerRecord(
        # By the API a state without any member means waiting.
        state="waiting",
        reason=waiting.get("reason") or "",
        message=(waiting.get("message") or "")[:MESSAGE_CHARS],
        **common,
    )


def _deletion(meta: Json, before: Deletion | None) -> dict[str, Any]:
    end = deletion_seconds(meta)
    if end is None:
        return {}
    granted = meta.get("deletionGracePeriodSeconds") or 0
    asked_at: int | None = deletion_asked_at(end, granted)
    had_grace = granted > 0
    # A new pod of the same name has another UID, and a deletion of its own.
    if before is not None and before.uid == meta["uid"]:
        asked_at, had_grace = before.asked_at, had_grace or before.was_told_to_go
    return {
        "deleted_at": end,
        "deletion_asked_at": asked_at,
        "deletion_grace_seconds": granted,
        "was_told_to_go": had_grace,
    }


def deletion_asked_at(deleted_at: int, grace_seconds: int) -> int:
    """The time of the request for deletion. `deleted_at`: metadata.deletionTimestamp, the end of the grace period. Both
    in Unix seconds."""
    return int(deleted_at - _added_seconds(grace_seconds))


def _added_seconds(grace_seconds: int) -> float:
    """The seconds that the API server added to the time of the request. It counts nanoseconds in 64 bits, so that a
    grace period of more than 292 years overflows (`BeforeDelete` of k8s.io/apiserver)."""
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
