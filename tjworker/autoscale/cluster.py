"""The cluster as the planner sees it, from the projection: what schedulable nodes have, and what pods request. Pure.

A node that is not Ready, or is cordoned, does not count, nor do its pods. Pods without a node count in the sums: all of
them want room, also those of other operators. Source: PaddlePaddle EDL (`InquiryResource`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tjworker.api.node_requests import NOTHING, WAITING, NodeRequests
from tjworker.api.observed import NodeRecord
from tjworker.api.quantity import mega, milli, whole
from tjworker.autoscale.resources import ClusterResource, Nodes

PODS = "pods"
MEGA = 1_000_000
MOST = 1 << 62
"""More than any node has, of anything; sums of it still fit into a float."""


def cluster_resource(
    nodes: Mapping[str, NodeRecord], requests: Mapping[str, NodeRequests], gpu_resources: Sequence[str]
) -> ClusterResource:
    """`requests`: of the pods of each node, and under WAITING of those without one. `gpu_resources`: the extended
    resources that are GPUs; their sum is `gpu_free`, and where there are several kinds each also counts by itself."""
    usable = usable_nodes(nodes)
    resource = ClusterResource(node_count=len(usable), nodes=Nodes(others_free={PODS: {}}))
    kinds = kinds_of(gpu_resources)
    for kind in kinds:
        resource.nodes.others_free[kind] = {}
    total_bytes = 0
    for name, node in usable.items():
        asked_here = requests.get(name, NOTHING)
        cpu, memory, pods = has(node, "cpu"), has(node, "memory"), has(node, PODS)
        resource.cpu_total_milli += cpu
        total_bytes += memory
        resource.nodes.cpu_idle_milli[name] = cpu - asked_here.cpu_milli
        resource.nodes.memory_free_mega[name] = (memory - asked_here.memory_bytes) // MEGA
        resource.nodes.others_free[PODS][name] = pods - asked_here.pods
        resource.nodes.gpu_free[name] = 0
        for gpu in gpu_resources:
            amount = has(node, gpu)
            resource.gpu_total += amount
            resource.nodes.gpu_free[name] += max(0, amount - asked_here.amount(gpu))
        for kind in kinds:
            resource.nodes.others_free[kind][name] = has(node, kind) - asked_here.amount(kind)
    asked = requests.get(WAITING, NOTHING)
    for name in usable:
        asked = asked.plus(requests.get(name, NOTHING))
    resource.memory_total_mega = mega(total_bytes)
    resource.cpu_request_milli, resource.cpu_limit_milli = min(MOST, asked.cpu_milli), min(MOST, asked.cpu_limit_milli)
    resource.memory_request_mega = min(MOST, mega(asked.memory_bytes))
    resource.memory_limit_mega = min(MOST, mega(asked.memory_limit_bytes))
    resource.gpu_request = resource.gpu_limit = min(MOST, sum(asked.amount(gpu) for gpu in gpu_resources))
    return resource


def usable_nodes(nodes: Mapping[str, NodeRecord]) -> dict[str, NodeRecord]:
    """Those that are ready and schedulable, by name."""
    return {name: node for name, node in sorted(nodes.items()) if node.ready == "True" and not node.unschedulable}


def kinds_of(gpu_resources: Sequence[str]) -> tuple[str, ...]:
    """Extended resources that must be told apart on a node."""
    return tuple(gpu_resources) if len(gpu_resources) > 1 else ()


def has(node: NodeRecord, name: str) -> int:
    """0 for a quantity that cannot be read: the kubelet will write another."""
    try:
        amount = node.allocatable.get(name, "0")
        return min(MOST, milli(amount) if name == "cpu" else whole(amount))
    except (ValueError, ArithmeticError):
        return 0
