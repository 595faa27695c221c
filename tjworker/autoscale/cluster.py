"""The cluster as the planner sees it, out of the projection: what schedulable nodes have, and what is asked of them. Pure.

Pods on a node that is not Ready or is cordoned count no more than the node does. Pods that wait for a node count in the sums:
whoever they are, they want room. Source: seed 003 (`InquiryResource`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tjworker.api.observed import NodeRecord
from tjworker.api.podload import NOTHING, WAITING, PodLoad
from tjworker.api.quantity import mega, milli, whole
from tjworker.autoscale.resources import ClusterResource, Nodes

PODS = "pods"
MEGA = 1_000_000


def cluster_resource(
    nodes: Mapping[str, NodeRecord], loads: Mapping[str, PodLoad], gpu_resources: Sequence[str]
) -> ClusterResource:
    """`loads`: what the pods of each node ask for, and under WAITING those without one. `gpu_resources`: the extended resources
    that are GPUs; their sum is `gpu_free`, and where there are several kinds each also counts by itself."""
    usable = {name: node for name, node in sorted(nodes.items()) if node.ready == "True" and not node.unschedulable}
    resource = ClusterResource(node_count=len(usable), nodes=Nodes(others_free={PODS: {}}))
    kinds = kinds_of(gpu_resources)
    for kind in kinds:
        resource.nodes.others_free[kind] = {}
    total_bytes = 0
    for name, node in usable.items():
        load = loads.get(name, NOTHING)
        cpu, memory, pods = _has(node, "cpu"), _has(node, "memory"), _has(node, PODS)
        resource.cpu_total_milli += cpu
        total_bytes += memory
        resource.nodes.cpu_idle_milli[name] = cpu - load.cpu_milli
        resource.nodes.memory_free_mega[name] = (memory - load.memory_bytes) // MEGA
        resource.nodes.others_free[PODS][name] = pods - load.pods
        resource.nodes.gpu_free[name] = 0
        for gpu in gpu_resources:
            has = _has(node, gpu)
            resource.gpu_total += has
            resource.nodes.gpu_free[name] += max(0, has - load.amount(gpu))
        for kind in kinds:
            resource.nodes.others_free[kind][name] = _has(node, kind) - load.amount(kind)
    asked = loads.get(WAITING, NOTHING)
    for name in usable:
        asked = asked.plus(loads.get(name, NOTHING))
    resource.memory_total_mega = mega(total_bytes)
    resource.cpu_request_milli, resource.cpu_limit_milli = asked.cpu_milli, asked.cpu_limit_milli
    resource.memory_request_mega, resource.memory_limit_mega = mega(asked.memory_bytes), mega(asked.memory_limit_bytes)
    resource.gpu_request = resource.gpu_limit = sum(asked.amount(gpu) for gpu in gpu_resources)
    return resource


def kinds_of(gpu_resources: Sequence[str]) -> tuple[str, ...]:
    """Extended resources that must be told apart on a node."""
    return tuple(gpu_resources) if len(gpu_resources) > 1 else ()


def _has(node: NodeRecord, name: str) -> int:
    """A quantity that cannot be read is none: the kubelet will write another."""
    try:
        amount = node.allocatable.get(name, "0")
        return milli(amount) if name == "cpu" else whole(amount)
    except ValueError:
        return 0
