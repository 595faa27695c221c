"""Reduces a node of the API server to what decisions need. Pure.

The watcher projects nodes with it; a worker reads a node itself before it force-deletes a pod.
"""

from __future__ import annotations

from tjworker.api.observed import NodeRecord
from tjworker.api.timefmt import unix_seconds
from tjworker.base import Json

_KEEPS_AWAY = ("NoSchedule", "NoExecute")
_UNREACHABLE = "node.kubernetes.io/unreachable"


def node_record(obj: Json) -> NodeRecord:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    ready: Json = {}
    others: dict[str, str] = {}
    since: dict[str, int] = {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            ready = condition
        elif condition["status"] == "True":
            # Types of any name: node-problem-detector adds its own, and TJ_GPU_FAULT_CONDITIONS names those that mean a
            # faulty GPU.
            others[condition["type"]] = (condition.get("message") or "")[:256]
            if (at := unix_seconds(condition.get("lastTransitionTime"))) is not None:
                since[condition["type"]] = at
    # Only a silent node has this taint, not a node whose kubelet reports that it is not ready.
    unreachable = next(
        (
            # The node lifecycle controller sets timeAdded (`SwapNodeControllerTaint`); `kubectl taint` does not.
            unix_seconds(taint.get("timeAdded") or ready.get("lastTransitionTime"))
            for taint in spec.get("taints") or ()
            if taint.get("key") == _UNREACHABLE
        ),
        None,
    )
    word = ready.get("status", "Unknown")
    return NodeRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        ready=word if word in ("True", "False") else "Unknown",
        ready_since=unix_seconds(ready.get("lastTransitionTime")),
        reason=ready.get("reason") or "",
        unschedulable=bool(spec.get("unschedulable")),
        unreachable_since=unreachable,
        conditions=others,
        condition_since=since,
        allocatable={
            name: str(value)
            for name, value in (status.get("allocatable") or {}).items()
            # Hugepages, ephemeral storage and attachable volumes are left out: no decision reads them.
            if name in ("cpu", "memory", "pods") or "/" in name
        },
        labels=meta.get("labels") or {},
        taints=tuple(
            (taint.get("key") or "", taint.get("value") or "", taint["effect"])
            for taint in spec.get("taints") or ()
            # PreferNoSchedule only lowers a node's score: the scheduler may still choose the node.
            if taint.get("effect") in _KEEPS_AWAY
        ),
    )
