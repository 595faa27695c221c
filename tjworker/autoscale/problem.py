"""The input and the output of a policy. Pure data.

Every constraint is a bound of a role before the policy plans (`ElasticRole`). No code edits the plan afterwards: it is
checked as a whole (`fitting.check_plan`), and carried out or rejected as a whole. A policy that needs more input adds a
field with a default.
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
"""Default for how long training pauses after a move, until the job's reports show it."""


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
    """Priority of the job's pods, which admission sets from their PriorityClass; 0 while there is no pod."""
    weight: float = 1.0
    """The job's share of the cluster relative to other jobs. No manifest sets it yet."""
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
    """A `ScaleCause`, or a cause that a newer version wrote."""


@dataclass(frozen=True, slots=True)
class ElasticRole:
    """A role that a plan may move."""

    id: RoleId
    owner: Owner
    elastic: ElasticJob
    """The hard bounds (`min_instance`, `max_instance`), the bounds for now (`floor`, `ceiling`), the present replicas,
    and what each replica takes of its node. `parallelism` is without the replicas that are taken back (`refused`)."""
    floor_because: str = ""
    """Why a plan may not go below `floor`; '' if there is no floor."""
    ceiling_because: str = ""
    """Why a plan may not go above `ceiling`; '' if there is no ceiling."""
    refused: int = 0
    """Replicas that are taken back whatever the plan says, because the cluster refused them for the whole cool-down."""
    refused_because: str = ""
    moves: tuple[PastMove, ...] = ()
    """The newest first. A job's status keeps ten moves."""
    service: float = 0.0
    """Replica-seconds that the role has received since the job started."""
    progress: Progress | None = None
    """None if the job has never reported."""
    batch_size: BatchSize | None = None
    policy: str = ""
    """The policy that plans the role; '' for the default."""

    @property
    def rescale_seconds(self) -> float:
        """How long training pauses after a move: measured, or RESCALE_SECONDS."""
        measured = self.progress.rescale_seconds if self.progress is not None else None
        return RESCALE_SECONDS if measured is None else measured


@dataclass(frozen=True, slots=True)
class Demand:
    """Equal pods that wait for a node, and could have one if elastic roles gave up what they can."""

    example: str
    """`namespace/name` of one of the pods."""
    pods: int
    cpu_milli: int = 0
    memory_mega: int = 0
    gpus: int = 0
    """`cpu_milli`, `memory_mega` and `gpus` are the requests of one pod."""
    priority: int = 0
    role: RoleId | None = None
    """The elastic role of the pods; None if they belong to none."""
    others: tuple[tuple[str, int], ...] = ()
    """(resource, amount) of `Nodes.others_free` that one pod takes of its node."""
    placed: int = 0
    """The number of these pods for which `Problem.resource` has reserved room on a node."""


@dataclass(frozen=True, slots=True)
class Problem:
    now: float
    """Unix seconds."""
    roles: Sequence[ElasticRole]
    resource: ClusterResource
    """The cluster as it will be when every earlier decision is carried out."""
    max_load_desired: float = 0.97
    """The fraction of the cluster's CPUs that pods may request. They may request all memory and all GPUs."""
    nodes: Mapping[str, NodeRecord] = field(default_factory=dict)
    """The nodes that are ready and schedulable."""
    demand: Sequence[Demand] = ()
    """The most urgent first."""
    memory: bytes = b""
    """`ScalePlan.memory` of the policy's last plan; b"" at first, and after it was lost."""

    def who_needs_room(self, giving: ElasticRole) -> str:
        """` for namespace/name and 2 more`: the most urgent waiting pods that would use what this role gives up. '' if
        no such pod is known, as after a node has left."""
        asks = giving.elastic
        for demand in self.demand:
            used = (
                (demand.cpu_milli and asks.cpu_request_milli)
                or (demand.memory_mega and asks.memory_request_mega)
                or (demand.gpus and asks.gpu_limit)
            )
            # A pod without GPUs gains nothing from a role that gives only GPUs.
            if used and demand.role != giving.id:
                more = f" and {demand.pods - 1} more" if demand.pods > 1 else ""
                return f" for {demand.example}{more}"
        return ""


@dataclass(frozen=True, slots=True)
class ScalePlan:
    targets: Mapping[RoleId, int]
    """Role -> the replicas that it should have. A role without an entry keeps its number."""
    places: Mapping[RoleId, Sequence[str]] = field(default_factory=dict)
    """Each role that grows -> a node with room for each added replica. The scheduler may choose other nodes; these
    prove that all replicas fit at once."""
    memory: bytes = b""
    """Passed to the policy in its next run. It may be lost at any time."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a role has the number of replicas that a plan gives it."""

    cause: ScaleCause
    """'' if the role keeps its number."""
    text: str
    """A clause for people, with its numbers."""
