"""What a cluster has, what pods request of it, and what each node has left. Pure data.

Units: milli-CPUs, and mega = 10^6 bytes, rounded up. Mutable: a dry run subtracts what it plans. Names and meaning come
from PaddlePaddle EDL (`ClusterResource`, `Nodes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(slots=True)
class Nodes:
    """Name of each node -> what it has left. May be below 0."""

    cpu_idle_milli: dict[str, int] = field(default_factory=dict)
    memory_free_mega: dict[str, int] = field(default_factory=dict)
    gpu_free: dict[str, int] = field(default_factory=dict)
    """If empty, the nodes' GPUs are unknown, and only the cluster's total counts."""
    others_free: dict[str, dict[str, int]] = field(default_factory=dict)
    """Any further resource -> node -> what is left. `pods`: how many more pods the node may take. If there are several
    kinds of GPU, each is a resource here, too."""

    def copy(self) -> Nodes:
        others = {name: dict(free) for name, free in self.others_free.items()}
        return Nodes(dict(self.cpu_idle_milli), dict(self.memory_free_mega), dict(self.gpu_free), others)


@dataclass(slots=True)
class ClusterResource:
    """Requests and limits are sums over pods that have not finished, including those without a node."""

    node_count: int = 0
    gpu_request: int = 0
    gpu_limit: int = 0
    gpu_total: int = 0
    cpu_request_milli: int = 0
    cpu_limit_milli: int = 0
    cpu_total_milli: int = 0
    memory_request_mega: int = 0
    memory_limit_mega: int = 0
    memory_total_mega: int = 0
    nodes: Nodes = field(default_factory=Nodes)

    def copy(self) -> ClusterResource:
        return replace(self, nodes=self.nodes.copy())
