"""Filters and scores nodes for a pod, with the messages of kube-scheduler. Pure.

`reasons_against` returns why a pod does not fit. `resolvable` reasons are those that evicting other pods could remove.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from localcluster.controllers.nodelifecycle import tolerates
from localcluster.objects import expression_matches
from localcluster.scheduler.nodeinfo import Demand, NodeInfo
from localcluster.wire import Json

MAX_SCORE = 100.0


@dataclass(frozen=True, slots=True)
class Against:
    reasons: tuple[str, ...]
    resolvable: bool


FITS = Against((), True)


def reasons_against(demand: Demand, node: NodeInfo, reserved: Iterable[Demand] = ()) -> Against:
    """`reserved`: pods of higher or equal priority that were promised room on this node (nominated)."""
    # In the order of the default plugins: the first that refuses gives the only reason of the node.
    if node.unschedulable and not any(
        tolerates(t, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}) for t in demand.tolerations
    ):
        return Against(("node(s) were unschedulable",), False)
    for taint in node.taints:
        if taint["effect"] != "PreferNoSchedule" and not any(tolerates(t, taint) for t in demand.tolerations):
            return Against(("node(s) had untolerated taint(s)",), False)
    if not matches_node(demand, node):
        return Against(("node(s) didn't match Pod's node affinity/selector",), False)
    if demand.host_ports and any(set(demand.host_ports) & set(other.host_ports) for other, _ in node.pods.values()):
        return Against(("node(s) didn't have free ports for the requested pod ports",), True)
    return _find_lacking(demand, node, reserved)


def _find_lacking(demand: Demand, node: NodeInfo, reserved: Iterable[Demand]) -> Against:
    promised: dict[str, int] = {}
    for other in reserved:
        for name, amount in other.requests.items():
            promised[name] = promised.get(name, 0) + amount
    lacking = []
    hopeless = False
    for name, amount in demand.requests.items():
        if amount and node.requested.get(name, 0) + promised.get(name, 0) + amount > node.allocatable.get(name, 0):
            lacking.append("Too many pods" if name == "pods" else f"Insufficient {name}")
            # More than the whole node has: no preemption can help (UnschedulableAndUnresolvable).
            hopeless = hopeless or amount > node.allocatable.get(name, 0)
    return Against(tuple(lacking), not hopeless) if lacking else FITS


def matches_node(demand: Demand, node: NodeInfo) -> bool:
    if any(node.labels.get(k) != v for k, v in demand.node_selector.items()):
        return False
    if demand.affinity_terms is None:
        return True
    return any(term_matches(term, node) for term in demand.affinity_terms)


def term_matches(term: Json, node: NodeInfo) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    # A term without requirements matches no node (`isEmptyNodeSelectorTerm`), unlike an empty label selector.
    if not expressions and not fields:
        return False
    return all(expression_matches(e, node.labels) for e in expressions) and all(
        expression_matches(f, {"metadata.name": node.name}) for f in fields
    )


def score_node(demand: Demand, node: NodeInfo) -> float:
    """Higher is better: free room after placing (least allocated), few pods of the same owner, preferences."""
    free = 0.0
    for name in ("cpu", "memory"):
        have = node.allocatable.get(name, 0)
        # A pod that asks for nothing still counts a little, as in kube-scheduler, or it would pile up.
        asks = demand.requests.get(name, 0) or (100 if name == "cpu" else 200 * 1024 * 1024)
        free += max(0.0, (have - node.requested.get(name, 0) - asks) / have) if have else 0.0
    total = free / 2 * MAX_SCORE
    # PodTopologySpread, of weight 2, spreads the pods of one owner (`systemDefaultConstraints`).
    if demand.owner_uid:
        same = sum(1 for other, _ in node.pods.values() if other.owner_uid == demand.owner_uid)
        total += 2 * MAX_SCORE / (1 + same)
    # TaintToleration has weight 3 among the default plugins.
    total -= (
        3
        * MAX_SCORE
        * sum(
            1
            for t in node.taints
            if t["effect"] == "PreferNoSchedule" and not any(tolerates(have, t) for have in demand.tolerations)
        )
    )
    for preference in demand.preferred_terms:
        if term_matches(preference["preference"], node):
            total += 2 * preference.get("weight", 1)
    # Between equal nodes kube-scheduler draws lots; here the emptier one wins, so that a run can be repeated.
    return total - len(node.pods) * 0.001


def fit_error(against: dict[str, Against]) -> str:
    """`0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable.`"""
    if not against:
        return "no nodes available to schedule pods"
    counts: dict[str, int] = {}
    for each in against.values():
        for reason in each.reasons:
            counts[reason] = counts.get(reason, 0) + 1
    reasons = sorted(f"{count} {reason}" for reason, count in counts.items())
    return f"0/{len(against)} nodes are available: {', '.join(reasons)}."
