"""Builds the cluster that the planner sees from the projection: what usable nodes have, and what pods request. Pure.

Nodes that are not Ready or are cordoned do not count, and neither do their pods. Pods without a node count in the sums,
also those of other operators: all of them want room. Source: PaddlePaddle EDL (`InquiryResource`).
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
"""More than any node has of any resource. Sums of it still fit into a float."""


def cluster_resource(
    nodes: Mapping[str, NodeRecord], requests: Mapping[str, NodeRequests], gpu_resources: Sequence[str]
) -> ClusterResource:
    """The resources of the usable nodes. `requests`: node -> sum of its pods' requests; WAITING -> the sum of pods
    without a node. `gpu_resources`: the extended resources that are GPUs. `gpu_free` is their sum; if there are several
    kinds, each kind also counts by itself."""
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
        # Below 0 on a node whose allocatable has shrunk under its pods, or whose pods have named it themselves.
        resource.nodes.cpu_idle_milli[name] = cpu - asked_here.cpu_milli
        # Rounded down, while requests are rounded up: a replica that is planned must fit.
        resource.nodes.memory_free_mega[name] = (memory - asked_here.memory_bytes) // MEGA
        resource.nodes.others_free[PODS][name] = pods - asked_here.pods
        resource.nodes.gpu_free[name] = 0
        for gpu in gpu_resources:
            amount = has(node, gpu)
            resource.gpu_total += amount
            # A shortage of one kind of GPU takes nothing from another kind.
            resource.nodes.gpu_free[name] += max(0, amount - asked_here.amount(gpu))
        for kind in kinds:
            resource.nodes.others_free[kind][name] = has(node, kind) - asked_here.amount(kind)
    # Memory is summed in bytes and rounded to MB once, not per node.
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
    """The nodes that are ready and schedulable, in the order of their names."""
    return {name: node for name, node in sorted(nodes.items()) if node.ready == "True" and not node.unschedulable}


def kinds_of(gpu_resources: Sequence[str]) -> tuple[str, ...]:
    """The GPU resources that must be counted separately on each node: all if there are several, else none."""
    return tuple(gpu_resources) if len(gpu_resources) > 1 else ()


def has(node: NodeRecord, name: str) -> int:
    """The node's allocatable amount: milli-CPUs, bytes of memory, or a count. 0 for a quantity that cannot be read."""
    # A bad quantity must not break the plan of the cluster. The kubelet will write another.
    try:
        amount = node.allocatable.get(name, "0")
        return min(MOST, milli(amount) if name == "cpu" else whole(amount))
    except (ValueError, ArithmeticError):
        return 0
