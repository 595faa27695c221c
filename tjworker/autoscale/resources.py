"""What a cluster has, what is asked of it, and what each node has left: the planner's picture of it. Pure.

Milli-CPUs; mega = 10^6 bytes, rounded up. These two may be changed: a dry run takes from them what it plans. Names and
meaning: seed 003 (`ClusterResource`, `Nodes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Nodes:
    """What each node has left, by its name."""

    cpu_idle_milli: dict[str, int] = field(default_factory=dict)
    memory_free_mega: dict[str, int] = field(default_factory=dict)
    gpu_free: dict[str, int] = field(default_factory=dict)
    """Empty: not known by node, so only the cluster's total counts."""
    others_free: dict[str, dict[str, int]] = field(default_factory=dict)
    """Whatever else a replica needs of its one node: resource -> node -> left. The number of pods that a node may still
    take is one of them; each kind of GPU is another where there are several."""

    def copy(self) -> Nodes:
        others = {name: dict(free) for name, free in self.others_free.items()}
        return Nodes(dict(self.cpu_idle_milli), dict(self.memory_free_mega), dict(self.gpu_free), others)


@dataclass(slots=True)
class ClusterResource:
    """Requests and limits are sums over pods that have not finished, those that wait for a node included."""

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
