"""The input of a simulation: nodes and their failures, jobs, and services. Pure data."""

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
"""A simulation without `until` ends after this time at the latest: some job makes no progress."""


class ScenarioError(ValueError):
    """An input is wrong. The message is one line, which names the field or row."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """What a node has, or one pod requests."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    name: str
    has: Amounts
    # The kubelet's default of maxPods.
    pods: int = 110
    used: Amounts = Amounts()
    """Requests of pods that are not simulated, such as those of the system."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A node is lost (`up` is False) or comes back at that second."""

    at: float
    node: str
    up: bool


@dataclass(frozen=True, slots=True)
class SimulatedService:
    """Pods that do no training, such as a web service. Their number follows a fixed plan."""

    name: str
    asks: Amounts
    steps: Sequence[tuple[float, int]]
    """(second, number of replicas from then on), ascending."""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Rigid:
    """How a scheduler without elasticity runs the job: with this number of replicas or not at all."""

    replicas: int
    speed: Speed


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    name: str
    submitted_at: float
    asks: Amounts
    """The requests of one replica."""
    least: int
    most: int
    replicas: int
    """The number of replicas with which the job starts."""
    work: float | None = None
    """In units of the job's speed model. None: the job trains until the simulation ends."""
    speed: Speed = LINEAR
    needs: int | None = None
    """The least number of replicas with which the job makes progress. None: `least` if it is elastic, else all."""
    fixed_roles: Mapping[str, tuple[int, Amounts]] = field(default_factory=dict)
    """Role -> (number of pods, requests of one), such as of parameter servers. The job makes progress only while all of
    these pods run."""
    rescale_seconds: float = 0.0
    """Seconds without progress after the job starts, and after its number of replicas changes."""
    priority: int = 0
    gang: bool = False
    """The first `needs` replicas get their nodes together or not at all."""
    rigid: Rigid | None = None
    batch_size: BatchSize | None = None
    """The range in which the job adapts its batch size; None if it does not."""
    running: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Role -> the nodes on which its first replicas run already at submission; '' for a replica that waits. A job with
    such replicas does not pause at its start."""
    reported: Progress | None = None
    """What the job has reported before the simulation begins."""

    @property
    def elastic(self) -> bool:
        return self.least < self.most

    @property
    def quorum(self) -> int:
        return self.needs if self.needs is not None else (self.least if self.elastic else self.replicas)


@dataclass(frozen=True, slots=True)
class Scenario:
    nodes: Sequence[SimulatedNode]
    jobs: Sequence[SimulatedJob]
    services: Sequence[SimulatedService] = ()
    events: Sequence[NodeEvent] = ()
    until: float | None = None
    """The second at which the simulation ends. None: when every job is done."""
    tick_seconds: float = 5.0
    """Seconds between two decisions of the policy."""
    cooldown_seconds: float = 30.0
    max_load_desired: float = 0.97
    start_seconds: float = 1.0
    """Seconds from a pod's assignment to a node until it runs."""
    stop_seconds: float = 1.0
    """Seconds from a pod's deletion until its room is free."""
    placement: Placement = "spread"
    preempts: bool = True
    """True if a pod that finds no room preempts pods of lower priority."""
    reports_progress: bool = True
    """True if jobs report their percentage and remaining time; else they report only their speed."""

    def largest(self) -> Amounts:
        """The resources of all nodes together."""
        return Amounts(
            sum(n.has.cpu_milli for n in self.nodes),
            sum(n.has.memory_bytes for n in self.nodes),
            sum(n.has.gpus for n in self.nodes),
        )
