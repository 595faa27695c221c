"""The nodes of a simulation: which of them have room, and which node a pod gets. Pure and deterministic.

`spread` scores nodes as kube-scheduler does by default (NodeResourcesFit with LeastAllocated): the mean of the free
fractions of CPU and memory, and of GPUs if the pod requests them. Of equal nodes the first one wins. `pack` puts the
replicas of a job together: on a node that holds some of them already, else on the fullest node with room for all
remaining ones, else on the emptiest node. Schedulers for GPU clusters work like that, and so does the published
simulation of Pollux.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tjworker.simulate.scenario import Amounts, Placement, SimulatedNode


@dataclass(slots=True, eq=False)
class Pod:
    owner: str
    """Name of the job or service."""
    role: str
    index: int
    asks: Amounts
    created_at: float
    priority: int
    serial: int
    """Grows with each pod that is created."""
    node: str = ""
    ready_at: float = float("inf")
    refused: bool = False
    """True if the scheduler has found no node for the pod."""
    leaves_at: float | None = None
    """The second at which a pod that is being deleted frees its room; None if it is not being deleted."""

    @property
    def name(self) -> str:
        return f"{self.owner}-{self.role}-{self.index}"


@dataclass(slots=True)
class _NodeRoom:
    cpu: int
    memory: int
    gpus: int
    pods: int
    up: bool = True


class SimulatedCluster:
    def __init__(self, nodes: Sequence[SimulatedNode], placement: Placement) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.free = {
            n.name: _NodeRoom(
                n.has.cpu_milli - n.used.cpu_milli,
                n.has.memory_bytes - n.used.memory_bytes,
                n.has.gpus - n.used.gpus,
                n.pods,
            )
            for n in nodes
        }
        self.placement = placement
        self._full: set[Amounts] = set()
        """Sizes for which no node has room. Cleared when room is freed."""

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

    def fits(self, room: _NodeRoom, asks: Amounts) -> bool:
        return (
            room.up
            and room.pods > 0
            and (not asks.cpu_milli or room.cpu >= asks.cpu_milli)
            and (not asks.memory_bytes or room.memory >= asks.memory_bytes)
            and (not asks.gpus or room.gpus >= asks.gpus)
        )

    def count(self, asks: Amounts, most: int) -> int:
        """How many such pods the nodes have room for at the same time, at most `most`."""
        found = 0
        for room in self.free.values():
            if self.fits(room, asks):
                found += _many(room, asks)
                if found >= most:
                    return most
        return found

    def choose(self, pod: Pod, mine: Iterable[str], left: int) -> str:
        """The node for the pod; '' if no node has room. `mine`: the nodes of the other replicas of its role. `left`:
        how many replicas of the role, including this one, still need a node."""
        # Thousands of equal pods may wait in a full cluster: look at its nodes once.
        if pod.asks in self._full:
            return ""
        able = [(name, room) for name, room in self.free.items() if self.fits(room, pod.asks)]
        if not able:
            self._full.add(pod.asks)
            return ""
        if self.placement == "spread":
            return max(able, key=lambda node: self._emptiness(node[0], node[1], pod.asks))[0]
        held: dict[str, int] = {}
        for name in mine:
            held[name] = held.get(name, 0) + 1
        return min(able, key=lambda node: self._together(node[0], node[1], pod.asks, held, left))[0]

    def _emptiness(self, name: str, room: _NodeRoom, asks: Amounts) -> float:
        """The score of `spread`, 0 to 100; the highest node is chosen."""
        has = self.nodes[name].has
        pairs = [(room.cpu - asks.cpu_milli, has.cpu_milli), (room.memory - asks.memory_bytes, has.memory_bytes)]
        if asks.gpus:
            pairs.append((room.gpus - asks.gpus, has.gpus))
        # Whole numbers, as kube-scheduler's scores: a small difference does not decide.
        return sum(100 * free // total for free, total in pairs if total) / len(pairs)

    def _together(
        self, name: str, room: _NodeRoom, asks: Amounts, held: dict[str, int], left: int
    ) -> tuple[int, int, int, float]:
        """The sort key of `pack`; the lowest node is chosen."""
        many = _many(room, asks)
        # First nodes that hold replicas of the role, then the fullest with room for all, then the emptiest.
        if name in held:
            return (0, -held[name], 0, 0.0)
        if many >= left:
            return (1, 0, many, self._emptiness(name, room, asks))
        return (2, 0, -many, 0.0)


def room_for(nodes: Sequence[SimulatedNode], asks: Amounts) -> int:
    """How many such pods the empty cluster has room for."""
    most = sum(node.pods for node in nodes)
    return SimulatedCluster(nodes, "spread").count(asks, most)


def _many(room: _NodeRoom, asks: Amounts) -> int:
    """How many such pods fit into the room."""
    pairs = ((room.cpu, asks.cpu_milli), (room.memory, asks.memory_bytes), (room.gpus, asks.gpus), (room.pods, 1))
    return min(has // wants for has, wants in pairs if wants)
