"""Decides whether the node takes a pod that its kubelet sees for the first time. A pod that the scheduler has bound
fits, unless a pod that was placed by hand came first. Pure.

Follows kubernetes v1.36.3, pkg/kubelet/lifecycle/predicate.go, `predicateAdmitHandler.Admit` and `generalFilter`: the
first of the reasons counts, and an extended resource that the node does not have is not looked at.
"""

from __future__ import annotations

from localcluster.controllers.nodelifecycle import tolerates
from localcluster.kubelet.troubles import Refusal
from localcluster.objects import is_terminal
from localcluster.scheduler.filters import matches_node
from localcluster.scheduler.nodeinfo import Demand, NodeInfo, demand_of
from localcluster.wire import Json

_OWN_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")
"""In the order in which noderesources/fit.go looks at them; extended resources come last."""


class Room:
    """What the admitted pods of one node take of it. They leave when they have ended or are gone."""

    def __init__(self, name: str) -> None:
        self._info = NodeInfo(name)

    def see(self, pod: Json) -> None:
        """A pod as the API server shows it: one that has a start time was admitted once."""
        if is_terminal(pod):
            self.leave(pod)
        elif (pod.get("status") or {}).get("startTime"):
            self.admit(pod)

    def admit(self, pod: Json) -> None:
        if not self._has(pod):
            self._info.add(demand_of(pod, 0), pod)

    def leave(self, pod: Json) -> None:
        if self._has(pod):
            self._info.remove(_pod_key(pod))

    def _has(self, pod: Json) -> bool:
        held = self._info.pods.get(_pod_key(pod))
        return held is not None and held[0].uid == pod["metadata"]["uid"]

    def refusal(self, pod: Json, node: Json) -> Refusal | None:
        """Why the node has no place for it. None: it has."""
        if self._has(pod):
            return None  # admitted already: the API server has not shown its start yet
        self._info.set_node(node)
        demand = demand_of(pod, 0)
        return _find_lacking(demand, self._info) or _failed_predicate(demand, self._info)


def _pod_key(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _find_lacking(demand: Demand, node: NodeInfo) -> Refusal | None:
    extended = sorted(name for name in demand.requests if name not in _OWN_RESOURCES)
    for name in (*_OWN_RESOURCES, *extended):
        wanted, used, capacity = demand.requests.get(name, 0), node.requested.get(name, 0), node.allocatable.get(name)
        if wanted and capacity is not None and used + wanted > capacity:
            figures = f"requested: {wanted}, used: {used}, capacity: {capacity}"
            return f"OutOf{name}", f"Node didn't have enough resource: {name}, {figures}"
    return None


def _failed_predicate(demand: Demand, node: NodeInfo) -> Refusal | None:
    taken = {port for other, _ in node.pods.values() for port in other.host_ports} if demand.host_ports else set()
    taints = [taint for taint in node.taints if taint["effect"] == "NoExecute"]
    if not matches_node(demand, node):
        name, why = "NodeAffinity", "node(s) didn't match Pod's node affinity/selector"
    elif taken & set(demand.host_ports):
        name, why = "NodePorts", "node(s) didn't have free ports for the requested pod ports"
    elif any(not any(tolerates(have, taint) for have in demand.tolerations) for taint in taints):
        name, why = "TaintToleration", "node(s) had taints that the pod didn't tolerate"
    else:
        return None
    return name, f"Predicate {name} failed: {why}"
