"""What the scheduler knows of a node: what it can hold, what it holds, and a pod's demand on it. Data only, no I/O.

Amounts are integers: CPU in milli-cores, everything else in base units (bytes, pieces).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from localcluster.objects import amount_of, controller_of, pod_requests, seconds_of
from localcluster.wire import Json


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod asks of a node."""

    key: str
    uid: str
    namespace: str
    priority: int
    created_seconds: float
    requests: dict[str, int]
    node_selector: dict[str, str]
    affinity_terms: tuple[Json, ...] | None
    """The required node selector terms, ORed; None when there are none."""
    preferred_terms: tuple[Json, ...]
    tolerations: tuple[Json, ...]
    host_ports: tuple[tuple[str, int], ...]
    """(protocol, port) taken on the node itself."""
    owner_uid: str
    preempts: bool
    gang: str = ""
    """The key of its PodGroup (`gang.group_of`); empty for a pod without a gang."""

    @property
    def signature(self) -> str:
        """Equal for pods that fit on the same nodes."""
        return repr(
            (
                self.priority,
                self.requests,
                self.node_selector,
                self.affinity_terms,
                self.tolerations,
                self.host_ports,
                self.preempts,
            )
        )


@dataclass(slots=True)
class NodeInfo:
    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[Json] = field(default_factory=list)
    unschedulable: bool = False
    known: bool = False
    """False while only pods name the node."""
    allocatable: dict[str, int] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)
    pods: dict[str, tuple[Demand, Json]] = field(default_factory=dict)

    def set_node(self, node: Json) -> None:
        spec, status = node.get("spec") or {}, node.get("status") or {}
        self.known = True
        self.labels = node["metadata"].get("labels") or {}
        self.taints = list(spec.get("taints") or ())
        self.unschedulable = bool(spec.get("unschedulable"))
        self.allocatable = {
            k: amount_of(k, v) for k, v in (status.get("allocatable") or status.get("capacity") or {}).items()
        }

    def add(self, demand: Demand, pod: Json) -> None:
        """Replaces what was there under the same key."""
        self.remove(demand.key)
        self.pods[demand.key] = (demand, pod)
        for name, amount in demand.requests.items():
            self.requested[name] = self.requested.get(name, 0) + amount

    def remove(self, key: str) -> None:
        had = self.pods.pop(key, None)
        if had is not None:
            for name, amount in had[0].requests.items():
                self.requested[name] -= amount

    def without(self, keys: Iterable[str]) -> NodeInfo:
        """A copy in which these pods are not there."""
        copy = NodeInfo(
            self.name,
            self.labels,
            self.taints,
            self.unschedulable,
            self.known,
            self.allocatable,
            dict(self.requested),
            dict(self.pods),
        )
        for key in keys:
            copy.remove(key)
        return copy


def demand_of(pod: Json, priority: int, gang: str = "") -> Demand:
    meta, spec = pod["metadata"], pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    ports = [
        (p.get("protocol", "TCP"), port)
        for c in spec.get("containers") or ()
        for p in c.get("ports") or ()
        # On its node's network a container's port is a port of the node.
        if (port := p.get("hostPort") or (p["containerPort"] if spec.get("hostNetwork") else 0))
    ]
    return Demand(
        key=f"{meta['namespace']}/{meta['name']}",
        uid=meta["uid"],
        namespace=meta["namespace"],
        priority=priority,
        created_seconds=seconds_of(meta["creationTimestamp"]),
        requests={**pod_requests(pod), "pods": 1},
        node_selector=spec.get("nodeSelector") or {},
        affinity_terms=tuple(required.get("nodeSelectorTerms") or ()) if required else None,
        preferred_terms=tuple(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
        tolerations=tuple(spec.get("tolerations") or ()),
        host_ports=tuple(ports),
        owner_uid=(controller_of(pod) or {}).get("uid", ""),
        preempts=spec.get("preemptionPolicy") != "Never",
        gang=gang,
    )


def asks_of(pod: Json) -> tuple[object, ...]:
    """What of a pod the scheduler decides by, besides the cluster."""
    meta = pod["metadata"]
    return (
        pod["spec"],
        meta.get("labels"),
        meta.get("annotations"),
        (pod.get("status") or {}).get("nominatedNodeName"),
    )
