"""Raw Kubernetes objects to what the projection keeps of them: a job's key and a compact record. PURE.

Never kept: managedFields, values of environment variables, Secrets, kubectl's last-applied copy, and anything of an object
that is no job of ours and belongs to none. An object belongs to the job that its controlling owner reference names; a pod
of a ReplicaSet or batch Job to the job that our labels name (its direct owner is not the job). Strangers give None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson

from tjworker.api import labels as names
from tjworker.api.dialects.base import mapping, text
from tjworker.api.observed import ContainerRecord, NodeRecord, PodRecord, ServiceRecord, WorkloadRecord
from tjworker.api.records_json import encode
from tjworker.api.status import END_PHASES
from tjworker.api.timefmt import from_rfc3339
from tjworker.base import JobKey
from tjworker.kube.resources import JOB_GROUPS, JOB_PLURALS, RESOURCES
from tjworker.store.port import Change

Json = Mapping[str, Any]
MESSAGE_CHARS = 1024
NO_KEY = JobKey("")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OURS = frozenset(names.OURS)
_NODE_LABELS = (
    "kubernetes.io/hostname",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "nvidia.com/gpu.product",
)
_UNREACHABLE = "node.kubernetes.io/unreachable"


class Unprojectable(Exception):
    """An object that is not what its kind says: nothing can be made of it."""


@dataclass(frozen=True, slots=True)
class Projected:
    """A change for the store, and the two facts that the watcher itself needs about it."""

    change: Change
    job_uid: str = ""
    """UID of the job that the object belongs to (of the job itself for a job); '' when it does not say."""
    node: str = ""
    """The node of a pod that has one."""
    node_record: NodeRecord | None = None
    """The record, for a change of a node."""
    expires_at: float | None = None
    """When the TTL of a finished job has passed, in Unix seconds."""


def project(resource: str, obj: Json) -> Projected | None:
    """The change that this object, as it is now, means to the projection; None when it is not ours."""
    if RESOURCES[resource].is_job:
        return project_job(resource, obj)
    meta = obj["metadata"]
    owner = _owner(meta)
    key, job_uid = _belongs(resource, meta, owner)
    if key is None:
        return None
    record = _RECORDS[resource](obj, meta, owner["uid"] if owner else "")
    change = Change(key, resource, meta["name"], int(meta["resourceVersion"]), encode(record))
    return Projected(change, job_uid, record.node if isinstance(record, PodRecord) else "")


def deletion(change: Change, rv: int) -> Change:
    """The change that takes this one's object out of the projection."""
    return Change(change.key, change.resource, change.name, rv, None, is_job=change.is_job)


def job_key(plural: str, meta: Json) -> JobKey:
    return JobKey(f"{plural}/{meta['namespace']}/{meta['name']}")


def project_job(plural: str, obj: Json) -> Projected:
    meta = obj["metadata"]
    status = mapping(obj.get("status"))
    finished = text(status.get("phase")) in END_PHASES and _has_seen_the_spec(meta, status)
    record = _finished_record(obj, meta, status) if finished else _job_record(obj, meta, status)
    change = Change(
        job_key(plural, meta),
        plural,
        meta["name"],
        int(meta["resourceVersion"]),
        orjson.dumps(record),
        finished=finished,
        is_job=True,
    )
    return Projected(change, meta["uid"], expires_at=_expiry(record) if finished else None)


def _has_seen_the_spec(meta: Json, status: Json) -> bool:
    """An ended job whose spec was edited is owed one more pass, which says so in the status: `kubectl wait` asks for it."""
    return status.get("observedGeneration") in (None, 0, meta.get("generation"))


def _expiry(record: Json) -> float | None:
    ttl = _ttl_seconds(record)
    completed = from_rfc3339(text(record["status"].get("completionTime")))
    return None if ttl is None or completed is None else completed + ttl


def _ttl_seconds(job: Json) -> int | None:
    """Of any job, also of one that is older than its CRD's schema."""
    ttl = mapping(mapping(job.get("spec")).get("runPolicy")).get("ttlSecondsAfterFinished")
    return ttl if isinstance(ttl, int) else None


def _job_record(obj: Json, meta: Json, status: Json) -> dict[str, Any]:
    kept = {
        name: meta[name]
        for name in (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "labels",
            "creationTimestamp",
            "deletionTimestamp",
        )
        if name in meta
    }
    annotations = {name: value for name, value in (meta.get("annotations") or {}).items() if name != _LAST_APPLIED}
    if annotations:
        kept["annotations"] = annotations
    return {
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "metadata": kept,
        "spec": obj.get("spec") or {},
        "status": status,
    }


def _finished_record(obj: Json, meta: Json, status: Json) -> dict[str, Any]:
    """In the shape of a job, marked `finished`; what a TTL needs and no more. Who needs the rest asks the API server."""
    kept = {
        name: meta[name]
        for name in ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")
        if name in meta
    }
    ttl = _ttl_seconds(obj)
    return {
        "finished": True,
        "apiVersion": obj.get("apiVersion", ""),
        "kind": obj.get("kind", ""),
        "metadata": kept,
        "spec": {} if ttl is None else {"runPolicy": {"ttlSecondsAfterFinished": ttl}},
        "status": {name: status[name] for name in ("phase", "completionTime", "observedGeneration") if name in status},
    }


# -- whose an object is ------------------------------------------------------------------------------------------------


def _owner(meta: Json) -> Json | None:
    for reference in meta.get("ownerReferences") or ():
        if reference.get("controller"):
            owner: Json = reference
            return owner
    return None


def _belongs(resource: str, meta: Json, owner: Json | None) -> tuple[JobKey | None, str]:
    if owner is None:
        return None, ""
    group = owner["apiVersion"].partition("/")[0] if "/" in owner["apiVersion"] else ""
    plural = JOB_PLURALS.get((group, owner["kind"]))
    if plural is not None:
        return JobKey(f"{plural}/{meta['namespace']}/{owner['name']}"), owner["uid"]
    if resource == "pods" and (group, owner["kind"]) in (("apps", "ReplicaSet"), ("batch", "Job")):
        labels = meta.get("labels") or {}
        plural = JOB_GROUPS.get(labels.get(names.GROUP_NAME, ""))
        if plural is not None and labels.get(names.JOB_NAME):
            return JobKey(f"{plural}/{meta['namespace']}/{labels[names.JOB_NAME]}"), labels.get(names.JOB_UID, "")
    return None, ""


def _our_labels(meta: Json) -> dict[str, str]:
    return {name: value for name, value in (meta.get("labels") or {}).items() if name in _OURS}


# -- pods --------------------------------------------------------------------------------------------------------------


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
        labels=_our_labels(meta),
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
    """Extended resources (nvidia.com/gpu): whole numbers with a domain in their name. Kubernetes refuses other values."""
    held: dict[str, int] = {}
    for container in spec.get("containers") or ():
        for name, value in ((container.get("resources") or {}).get("limits") or {}).items():
            if "/" in name and str(value).isdigit():
                held[name] = held.get(name, 0) + int(value)
    return held


# -- services, workloads, pod groups -----------------------------------------------------------------------------------


def service_record(obj: Json, meta: Json, owner_uid: str) -> ServiceRecord:
    ports = tuple(int(port["port"]) for port in (obj.get("spec") or {}).get("ports") or ())
    return ServiceRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        owner_uid=owner_uid,
        labels=_our_labels(meta),
        ports=ports,
        deleted_at=meta.get("deletionTimestamp") or "",
    )


def workload_record(obj: Json, meta: Json, owner_uid: str) -> WorkloadRecord:
    """Of a ReplicaSet, a batch Job or a PodGroup: each has its own word for how many it wants. Reason and message are those of
    the condition that a Job ended with, or of a ReplicaSet whose pods the API server refuses."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    desired = next((spec[name] for name in ("replicas", "parallelism", "minMember") if name in spec), 0)
    conditions = status.get("conditions") or ()
    end, refused = _true(conditions, "Complete", "Failed"), _true(conditions, "ReplicaFailure")
    said = end or refused
    return WorkloadRecord(
        name=meta["name"],
        uid=meta["uid"],
        rv=int(meta["resourceVersion"]),
        owner_uid=owner_uid,
        labels=_our_labels(meta),
        desired=desired,
        ready=status.get("readyReplicas", status.get("ready", 0)) or 0,
        active=status.get("active", status.get("replicas", status.get("running", 0))) or 0,
        succeeded=status.get("succeeded") or 0,
        failed=status.get("failed") or 0,
        generation=meta.get("generation") or 0,
        observed_generation=status.get("observedGeneration") or 0,
        condition=end.get("type") or status.get("phase") or "",
        completed_at=status.get("completionTime") or "",
        reason=said.get("reason") or "",
        message=(said.get("message") or "")[:MESSAGE_CHARS],
        deleted_at=meta.get("deletionTimestamp") or "",
    )


def _true(conditions: Iterable[Json], *types: str) -> Json:
    return next((c for c in conditions if c.get("type") in types and c.get("status") == "True"), {})


_RECORDS: Mapping[str, Callable[[Json, Json, str], PodRecord | ServiceRecord | WorkloadRecord]] = {
    "pods": pod_record,
    "services": service_record,
    "replicasets": workload_record,
    "jobs": workload_record,
    "podgroups": workload_record,
}


# -- nodes -------------------------------------------------------------------------------------------------------------


def project_node(obj: Json) -> Projected:
    """A node belongs to no job: its change has an empty key, and the writer puts it where all jobs find it."""
    record = node_record(obj)
    return Projected(Change(NO_KEY, "nodes", record.name, record.rv, encode(record)), node_record=record)


def node_signal(record: NodeRecord) -> tuple[object, ...]:
    """What of a node its pods' jobs must hear of at once: readiness, taints, conditions, devices. Free of heartbeats."""
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
