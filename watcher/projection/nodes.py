"""Nodes: their health, and what they have to give. PURE."""

from __future__ import annotations

from tjworker.api.observed import NodeRecord
from tjworker.api.records_json import encode
from tjworker.api.resources import NODES
from tjworker.store.projection import Change
from watcher.projection.base import NO_KEY, Json, Projected

_NODE_LABELS = (
    "kubernetes.io/hostname",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "nvidia.com/gpu.product",
)
_UNREACHABLE = "node.kubernetes.io/unreachable"


def project_node(obj: Json) -> Projected:
    """A node belongs to no job: its change has an empty key, and the writer puts it where all jobs find it."""
    record = node_record(obj)
    return Projected(Change(NO_KEY, NODES, record.name, record.rv, encode(record)), node_record=record)


def node_signal(record: NodeRecord) -> tuple[object, ...]:
    """What of a node its pods' jobs must hear of at once: readiness, taints, conditions, devices. Free of
    heartbeats."""
    devices = tuple(sorted((name, value) for name, value in record.allocatable.items() if "/" in name))
    return (record.ready, record.unreachable_since, record.unschedulable, tuple(sorted(record.conditions)), devices)


def node_record(obj: Json) -> NodeRecord:
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    ready: Json = {}
    others: dict[str, str] = {}
    since: dict[str, str] = {}
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            ready = condition
        elif condition["status"] == "True":
            others[condition["type"]] = (condition.get("message") or "")[:256]
            if condition.get("lastTransitionTime"):
                since[condition["type"]] = condition["lastTransitionTime"]
    unreachable = next(
        (
            taint.get("timeAdded") or ready.get("lastTransitionTime") or ""
            for taint in spec.get("taints") or ()
            if taint.get("key") == _UNREACHABLE
        ),
        "",
    )
    word = ready.get("status", "Unknown")
    labels = meta.get("labels") or {}
    return NodeRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        ready=word if word in ("True", "False") else "Unknown",
        ready_since=ready.get("lastTransitionTime") or "",
        reason=ready.get("reason") or "",
        unschedulable=bool(spec.get("unschedulable")),
        unreachable_since=unreachable,
        conditions=others,
        condition_since=since,
        allocatable={
            name: str(value)
            for name, value in (status.get("allocatable") or {}).items()
            if name in ("cpu", "memory", "pods") or "/" in name
        },
        labels={name: labels[name] for name in _NODE_LABELS if name in labels},
    )
