"""Nodes and pods in simulated time: who has room, and which node a pod gets. Pure; deterministic.

`spread` scores nodes as kube-scheduler does by default (NodeResourcesFit with LeastAllocated: the mean of the free
parts of CPU and memory, and of GPUs where the pod asks for them; of equal nodes the first). `pack` puts a job's
replicas together: on a node that holds some of them already, else on the fullest node that has room for all that are
left, else on the emptiest. That is what a scheduler for GPU clusters does, and Pollux' published simulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tjworker.simulate.scenario import Amounts, Node, Placement


@dataclass(slots=True, eq=False)
class Pod:
    owner: str
    """Job or service."""
    role: str
    index: int
    asks: Amounts
    created_at: float
    priority: int
    serial: int
    """In the order of creation."""
    node: str = ""
    ready_at: float = float("inf")
    refused: bool = False
    """The scheduler has found no node for it."""
    leaves_at: float | None = None
    """Being deleted; its room is free from then on."""

    @property
    def name(self) -> str:
        return f"{self.owner}-{self.role}-{self.index}"


@dataclass(slots=True)
class _Room:
    cpu: int
    memory: int
    gpus: int
    pods: int
    up: bool = True


class Cluster:
    def __init__(self, nodes: Sequence[Node], placement: Placement) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.free = {
            n.name: _Room(
                n.has.cpu_milli - n.used.cpu_milli,
                n.has.memory_bytes - n.used.memory_bytes,
                n.has.gpus - n.used.gpus,
                n.pods,
            )
            for n in nodes
        }
        self.placement = placement
        self._full: set[Amounts] = set()
        """Sizes for which there is no room; forgotten when room is freed."""

    def place(self, pod: Pod, node: str) -> None:
        pod.node, pod.refused = node, False
        self._take(node, pod.asks, 1)

    def release(self, pod: Pod) -> None:
        self._take(pod.node, pod.asks, -1)
        self._full.clear()

    def set_up(self, node: str, *, up: bool) -> None:
        self.free[node].up = up
        self._full.clear()

    def _take(self, node: str, asks: Amounts, pods: int) -> None:
        room = self.free[node]
        room.cpu -= pods * asks.cpu_milli
        room.memory -= pods * asks.memory_bytes
        room.gpus -= pods * asks.gpus
        room.pods -= pods

    def fits(self, room: _Room, asks: Amounts) -> bool:
        return (
            room.up
            and room.pods > 0
            and (not asks.cpu_milli or room.cpu >= asks.cpu_milli)
            and (not asks.memory_bytes or room.memory >= asks.memory_bytes)
            and (not asks.gpus or room.gpus >= asks.gpus)
        )

    def count(self, asks: Amounts, most: int) -> int:
        """For how many such pods there is room at once, at most `most`."""
        found = 0
        for room in self.free.values():
            if self.fits(room, asks):
                found += _many(room, asks)
                if found >= most:
                    return most
        return found

    def choose(self, pod: Pod, mine: Iterable[str], left: int) -> str:
        """The node for it, '' for none. `mine`: nodes of the other replicas of its role; `left`: how many of them,
        with this one, still need a node."""
        if pod.asks in self._full:
            return ""
        able = [(name, room) for name, room in self.free.items() if self.fits(room, pod.asks)]
        if not able:
            self._full.add(pod.asks)
            return ""
        if self.placement == "spread":
            return max(able, key=lambda one: self._emptiness(one[0], one[1], pod.asks))[0]
        held: dict[str, int] = {}
        for name in mine:
            held[name] = held.get(name, 0) + 1
        return min(able, key=lambda one: self._together(one[0], one[1], pod.asks, held, left))[0]

    def _emptiness(self, name: str, room: _Room, asks: Amounts) -> float:
        has = self.nodes[name].has
        pairs = [(room.cpu - asks.cpu_milli, has.cpu_milli), (room.memory - asks.memory_bytes, has.memory_bytes)]
        if asks.gpus:
            pairs.append((room.gpus - asks.gpus, has.gpus))
        return sum(100 * free // total for free, total in pairs if total) / len(pairs)

    def _together(
        self, name: str, room: _Room, asks: Amounts, held: dict[str, int], left: int
    ) -> tuple[int, int, int, float]:
        many = _many(room, asks)
        if name in held:
            return (0, -held[name], 0, 0.0)
        if many >= left:
            return (1, 0, many, self._emptiness(name, room, asks))
        return (2, 0, -many, 0.0)


def _many(room: _Room, asks: Amounts) -> int:
    pairs = ((room.cpu, asks.cpu_milli), (room.memory, asks.memory_bytes), (room.gpus, asks.gpus), (room.pods, 1))
    return min(has // wants for has, wants in pairs if wants)
