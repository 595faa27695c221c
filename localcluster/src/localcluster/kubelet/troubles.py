"""What a kubelet does to pods on its own account: it turns them away, evicts them, shuts down with them. Pure.

Follows kubernetes v1.36.3, pkg/kubelet. A pod that is turned away gets phase, reason and message alone (kubelet.go,
`rejectPod`): no containers, none of the kubelet's conditions, not even PodScheduled. What is ended keeps its phase
until no container runs (status/status_manager.go, `mergePodStatus`). An eviction for the pod's own limits has no
DisruptionTarget (eviction/eviction_manager.go, `localStorageEviction`), one for the node's sake has (`synchronize`),
and so has a graceful shutdown (nodeshutdown/nodeshutdown_manager.go, `killPods`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from localcluster.objects import pod_requests, qos_class, seconds_of, timestamp, with_condition
from localcluster.wire import Json

NOT_READY, GONE = "NotReady", "gone"
FLAPPING, SHUTDOWN, DEVICE_PLUGIN, SILENT_LOGS = "Flapping", "NodeShutdown", "DevicePlugin", "SilentLogs"
REJECT, CLOCK_SKEW = "Reject", "ClockSkew"
KNOWN = (NOT_READY, GONE, FLAPPING, SHUTDOWN, DEVICE_PLUGIN, SILENT_LOGS, REJECT, CLOCK_SKEW)
SILENT = (NOT_READY, GONE)

EVICT_ANNOTATION = "localcluster/evict"
"""On a pod: `limit` (its own, of storage) or `pressure` (the node's, of memory)."""

Refusal = tuple[str, str]
"""Reason and message."""
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a kubelet ends a pod that may run on, by what anybody else knows."""

    reason: str
    message: str
    disruption: bool
    grace_seconds: float | None = None
    """None: the pod's own."""

    def onto(self, status: Json, now: float) -> Json:
        """The last status of such a pod. It has failed, whatever its containers exited with."""
        disrupted = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "TerminationByKubelet",
            "message": self.message,
        }
        conditions = status.get("conditions") or ()
        return {
            **status,
            "phase": "Failed",
            "reason": self.reason,
            "message": self.message,
            "conditions": with_condition(conditions, disrupted, timestamp(now)) if self.disruption else conditions,
        }


SHUTTING_DOWN = Ending("Terminated", "Pod was terminated in response to imminent node shutdown.", disruption=True)
UNDER_PRESSURE = Ending(
    "Evicted",
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 88Mi. ",
    disruption=True,
    grace_seconds=1,
)


def find_eviction(pod: Json) -> Ending | None:
    """What the annotation asks for; that of one container's pods goes before (`<container>.localcluster/evict`)."""
    found = pod["metadata"].get("annotations") or {}
    asked = found.get(f"{pod['spec']['containers'][0]['name']}.{EVICT_ANNOTATION}", found.get(EVICT_ANNOTATION))
    if asked == "pressure":
        return UNDER_PRESSURE
    return Ending("Evicted", _over_limit(pod["spec"]), disruption=False, grace_seconds=1) if asked == "limit" else None


def _over_limit(spec: Json) -> str:
    for volume in spec.get("volumes") or ():
        if limit := (volume.get("emptyDir") or {}).get("sizeLimit"):
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{limit}". '
    limits = [((c.get("resources") or {}).get("limits") or {}).get("ephemeral-storage") for c in spec["containers"]]
    return f"Pod ephemeral local storage usage exceeds the total limit of containers {limits[0] or '1Gi'}. "


def find_refusal(trouble: tuple[str, str], pod: Json, capacity: dict[str, str], gpu: str) -> Refusal | None:
    """With which a node in this trouble turns a new pod away. lifecycle/predicate.go, cm/admission/errors.go,
    cm/devicemanager/manager.go `devicesToAllocate`, cm/topologymanager/topology_manager.go."""
    kind, reason = trouble
    asked = pod_requests(pod)
    if kind == SHUTDOWN:
        return "NodeShutdown", "Pod was rejected as the node is shutting down."
    if kind == DEVICE_PLUGIN and asked.get(gpu):
        why = f"no healthy devices present; cannot allocate unhealthy devices {gpu}"
        return "UnexpectedAdmissionError", f"Allocate failed due to {why}, which is unexpected"
    if kind != REJECT:
        return None
    if reason.startswith("OutOf"):
        name = reason.removeprefix("OutOf")
        had = capacity.get(name, "0")
        wanted = asked.get(name, 1)
        return reason, f"Node didn't have enough resource: {name}, requested: {wanted}, used: {had}, capacity: {had}"
    why = f"requested number of devices unavailable for {gpu}. Requested: {asked.get(gpu, 1)}, Available: 0"
    messages = {
        "UnexpectedAdmissionError": f"Allocate failed due to {why}, which is unexpected",
        "TopologyAffinityError": "Resources cannot be allocated with Topology locality",
        "NodeAffinity": "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        "Evicted": "The node had condition: [MemoryPressure]. ",
    }
    return reason, messages.get(reason, "the annotation localcluster/fail of the node says so")


def rejected_status(pod: Json, found: Refusal, now: float) -> Json:
    """Its whole status."""
    old = pod.get("status") or {}
    reason, message = found
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": old.get("startTime") or timestamp(now),
        "qosClass": old.get("qosClass") or qos_class(pod["spec"]),
        "conditions": [c for c in old.get("conditions") or () if c["type"] == "DisruptionTarget"],
    }


def skew_times(new: Any, old: Any, seconds: float) -> Any:
    """`new` as a node writes it whose clock is so far ahead: each time that is not in `old` already, at its place."""
    if isinstance(new, dict):
        had = old if isinstance(old, dict) else {}
        return {key: skew_times(value, had.get(key), seconds) for key, value in new.items()}
    if isinstance(new, list):
        named = {o.get("type") or o.get("name"): o for o in old or () if isinstance(o, dict)}
        return [
            skew_times(v, named.get(v.get("type") or v.get("name")) if isinstance(v, dict) else None, seconds)
            for v in new
        ]
    if isinstance(new, str) and new != old and _TIME.fullmatch(new):
        return timestamp(seconds_of(new) + seconds)
    return new
