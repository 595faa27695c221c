"""What a policy is given and what it returns. Pure data.

Every constraint is a bound of a role before the policy plans (`ElasticRole`). Nothing edits the plan afterwards: it is
checked as a whole (`fitting.check_plan`) and carried out, or rejected as a whole. A policy that needs to know more adds
a field with a default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tjworker.api.model import BatchSize
from tjworker.api.observed import NodeRecord
from tjworker.api.progress import Progress
from tjworker.api.status import ScaleCause
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.resources import ClusterResource
from tjworker.base import JobKey

RESCALE_SECONDS = 30.0
"""How long a job stands still after a move, until its reports have shown it."""


class RoleId(NamedTuple):
    """One role of one job."""

    job: JobKey
    role: str

    def __str__(self) -> str:
        return f"{self.job}/{self.role}"


@dataclass(frozen=True, slots=True)
class Owner:
    """The job that a role belongs to."""

    namespace: str
    priority: int = 0
    """Of its pods, as admission has set it from their PriorityClass; 0 while it has no pod."""
    weight: float = 1.0
    """Its part of the cluster beside that of other jobs. No manifest sets it yet."""
    submitted_at: float | None = None
    """Unix seconds."""


@dataclass(frozen=True, slots=True)
class PastMove:
    """One change of a role's number of replicas."""

    at: float
    """Unix seconds."""
    from_: int
    to: int
    cause: str
    """A `ScaleCause`, or a word of a newer version."""


@dataclass(frozen=True, slots=True)
class ElasticRole:
    """A role that a plan may move."""

    id: RoleId
    owner: Owner
    elastic: ElasticJob
    """Its hard bounds (`min_instance`, `max_instance`), its soft ones (`floor`, `ceiling`), its replicas now, and what
    each of them takes of its node. Replicas that are taken back (`refused`) are not among them any more."""
    floor_because: str = ""
    """Why a plan may not go below `floor`; '' without a floor."""
    ceiling_because: str = ""
    """Why a plan may not go beyond `ceiling`; '' without a ceiling."""
    refused: int = 0
    """Replicas that are taken back whatever the plan says, because the cluster has refused them for the cool-down."""
    refused_because: str = ""
    moves: tuple[PastMove, ...] = ()
    """The newest first; the status keeps ten of a job."""
    service: float = 0.0
    """Replica-seconds that it has received since the job started."""
    progress: Progress | None = None
    """None for a job that has never reported."""
    batch_size: BatchSize | None = None
    policy: str = ""
    """The policy that plans it; '' where all roles have the same."""

    @property
    def rescale_seconds(self) -> float:
        """How long the job stands still after a move."""
        measured = self.progress.rescale_seconds if self.progress is not None else None
        return RESCALE_SECONDS if measured is None else measured


@dataclass(frozen=True, slots=True)
class Demand:
    """Pods that are alike, wait for a node, and could have one if elastic roles gave up what they can."""

    example: str
    """`namespace/name` of one of them."""
    pods: int
    cpu_milli: int = 0
    memory_mega: int = 0
    gpus: int = 0
    """Requests of one of them."""
    priority: int = 0
    role: RoleId | None = None
    """The elastic role that they belong to."""
    others: tuple[tuple[str, int], ...] = ()
    """(resource, amount) of `Nodes.others_free` that one of them takes of its node."""
    placed: int = 0
    """Of these pods, those that `Problem.resource` has reserved room for on a node."""


@dataclass(frozen=True, slots=True)
class Problem:
    now: float
    """Unix seconds."""
    roles: Sequence[ElasticRole]
    resource: ClusterResource
    """As it will be when every earlier decision is carried out."""
    max_load_desired: float = 0.97
    """The part of the cluster's CPUs that may be requested; memory and GPUs may be to the last one."""
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    """Those that are ready and schedulable."""
    demand: Sequence[Demand] = ()
    """The most urgent first."""
    memory: bytes = b""
    """What the policy's last plan returned as its memory; b"" at first, and after it was lost."""

    def who_needs_room(self, giving: ElasticRole) -> str:
        """` for namespace/name and 2 more`: the most urgent pods that wait, and would use what this role gives up; ''
        where no such pod is known, as when a node has left."""
        asks = giving.elastic
        for demand in self.demand:
            used = (
                (demand.cpu_milli and asks.cpu_request_milli)
                or (demand.memory_mega and asks.memory_request_mega)
                or (demand.gpus and asks.gpu_limit)
            )
            if used and demand.role != giving.id:
                more = f" and {demand.pods - 1} more" if demand.pods > 1 else ""
                return f" for {demand.example}{more}"
        return ""


@dataclass(frozen=True, slots=True)
class Plan:
    targets: Mapping[RoleId, int]
    """Replicas that a role should have. A role that is not named keeps its number."""
    places: Mapping[RoleId, Sequence[str]] = field(default_factory=dict)
    """Of each role that grows, a node with room for each replica that is added. The scheduler may choose others; these
    prove that all of them fit at once."""
    memory: bytes = b""
    """What the policy wants to be given in the next run. It may be lost at any time."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a role has the number of replicas that a plan gives it."""

    cause: ScaleCause
    """'' for a role that keeps its number."""
    text: str
    """A clause, with its numbers."""
