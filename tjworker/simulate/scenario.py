"""What is simulated: nodes and when they fail, jobs, and a service beside them. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tjworker.api.model import BatchSize
from tjworker.api.progress import Progress
from tjworker.simulate.speed import LINEAR, Speed

Placement = Literal["spread", "pack"]
GPU = "nvidia.com/gpu"
LONGEST_SECONDS = 366 * 86_400.0
"""A simulation without an end stops here: some job makes no progress."""


class ScenarioError(ValueError):
    """What is wrong with an input, in one line that names its field or row."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a node has, or one pod requests."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    has: Amounts
    pods: int = 110
    used: Amounts = Amounts()
    """By what is not simulated, such as the system."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node is lost or comes back."""

    at: float
    node: str
    up: bool


@dataclass(frozen=True, slots=True)
class Service:
    """Pods that are no training, such as a web service: they come and go by a plan."""

    name: str
    asks: Amounts
    steps: Sequence[tuple[float, int]]
    """(second, replicas from then on), ascending."""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Rigid:
    """How a scheduler without elasticity runs the job: so many replicas or none."""

    replicas: int
    speed: Speed


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    submitted_at: float
    asks: Amounts
    """Of one replica."""
    least: int
    most: int
    replicas: int
    """With which it starts."""
    work: float | None = None
    """Units of its speed model; None: it trains until the simulation ends."""
    speed: Speed = LINEAR
    needs: int | None = None
    """Replicas without which it makes no progress; None: `least`, of a job that is not elastic all of them."""
    beside: Mapping[str, tuple[int, Amounts]] = field(default_factory=dict)
    """Roles of a fixed number of pods, such as parameter servers; each must run."""
    rescale_seconds: float = 0.0
    """The job makes no progress for so long when replicas have come or gone, and when it starts."""
    priority: int = 0
    gang: bool = False
    """The first `needs` replicas get their nodes together or not at all."""
    rigid: Rigid | None = None
    batch_size: BatchSize | None = None
    """Between which batch sizes the job adapts its own; None: it does not."""
    standing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Role -> the node of each of its first replicas, which run there when the job is submitted; '' for one that waits.
    A job that has some does not stand still at its start."""
    reported: Progress | None = None
    """What it has reported before the simulation begins."""

    @property
    def elastic(self) -> bool:
        return self.least < self.most

    @property
    def quorum(self) -> int:
        return self.needs if self.needs is not None else (self.least if self.elastic else self.replicas)


@dataclass(frozen=True, slots=True)
class Scenario:
    nodes: Sequence[Node]
    jobs: Sequence[Job]
    services: Sequence[Service] = ()
    events: Sequence[NodeEvent] = ()
    until: float | None = None
    """Where it ends; None: when every job is done."""
    tick_seconds: float = 5.0
    """Between two decisions of the policy."""
    cooldown_seconds: float = 30.0
    max_load_desired: float = 0.97
    start_seconds: float = 1.0
    """From a pod's place on a node until it runs."""
    stop_seconds: float = 1.0
    """From a pod's deletion until its room is free."""
    placement: Placement = "spread"
    preempts: bool = True
    """A pod that finds no room takes it from pods of lower priority."""
    reports_progress: bool = True
    """Jobs report how far they have come. Without it they report their speed alone."""

    def largest(self) -> Amounts:
        """Sums over all nodes."""
        return Amounts(
            sum(n.has.cpu_milli for n in self.nodes),
            sum(n.has.memory_bytes for n in self.nodes),
            sum(n.has.gpus for n in self.nodes),
        )


def room_for(nodes: Sequence[Node], asks: Amounts) -> int:
    """How many such pods the empty cluster holds."""
    count = 0
    for node in nodes:
        pairs = (
            (node.has.cpu_milli - node.used.cpu_milli, asks.cpu_milli),
            (node.has.memory_bytes - node.used.memory_bytes, asks.memory_bytes),
            (node.has.gpus - node.used.gpus, asks.gpus),
            (node.pods, 1),
        )
        count += max(0, min(has // wants for has, wants in pairs if wants))
    return count
