"""What a cluster has, what pods request of it, and what each node has left. Pure data.

Milli-CPUs; mega = 10^6 bytes, rounded up. Mutable: a dry run subtracts what it plans. Names and meaning: PaddlePaddle
EDL (`ClusterResource`, `Nodes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Nodes:
    """What each node has left, by its name."""

    cpu_idle_milli: dict[str, int] = field(default_factory=dict)
    memory_free_mega: dict[str, int] = field(default_factory=dict)
    gpu_free: dict[str, int] = field(default_factory=dict)
    """Empty: not known for each node, so only the cluster's total counts."""
    others_free: dict[str, dict[str, int]] = field(default_factory=dict)
    """What else a replica needs of its node: resource -> node -> left. One is the number of pods that a node may still
    take; where there are several kinds of GPU, each is another."""

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
        return ClusterResource(
            self.node_count,
            self.gpu_request,
            self.gpu_limit,
            self.gpu_total,
            self.cpu_request_milli,
            self.cpu_limit_milli,
            self.cpu_total_milli,
            self.memory_request_mega,
            self.memory_limit_mega,
            self.memory_total_mega,
            self.nodes.copy(),
        )
