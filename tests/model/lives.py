"""What became of each job, pod and node, read from the chronicle. Facts alone: nothing here judges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.model.chronicle import Author, Json, Write
from tests.model.contract import DUE_SECONDS
from tjworker.api.model import Role, TrainingJob

NEVER = float("inf")
POD_GROUPS = "scheduling.k8s.io/podgroups"


@dataclass(slots=True)
class Pod:
    uid: str
    name: str
    role: str
    made_at: float
    made_by: Author
    attempt: int
    index: int | None
    raw: Json
    """Its newest version."""
    keeper: str = ""
    """UID of its controller: the job itself, or a ReplicaSet or batch Job of it."""
    node: str = ""
    bound_at: float = NEVER
    running_at: float = NEVER
    ended_at: float = NEVER
    succeeded: bool = False
    reason: str = ""
    disruption: str = ""
    """Reason of its condition DisruptionTarget."""
    exit_codes: tuple[int, ...] = ()
    asked_at: float = NEVER
    """When its deletion was asked for the first time."""
    asked_by: Author = "unknown"
    forced_at: float = NEVER
    """When the operator deleted it with grace 0, although it had a node and had not ended."""
    gone_at: float = NEVER
    restarts: list[tuple[float, int]] = field(default_factory=list)
    """When its containers that count had been restarted so often, all of them together."""
    device_ill_at: float = NEVER
    gpus: int = 0
    """That it holds while it has a node and has not ended."""

    @property
    def over_at(self) -> float:
        """From when on it does nothing any more."""
        return min(self.ended_at, self.gone_at)

    @property
    def lost_at(self) -> float:
        return min(self.ended_at, self.asked_at, self.gone_at)

    @property
    def waits_for_its_gang(self) -> bool:
        """It was never put onto a node: a gang that has become another makes it again."""
        return self.bound_at == NEVER and "schedulingGroup" in (self.raw.get("spec") or {})

    def alive(self, at: float) -> bool:
        return self.made_at <= at < self.over_at

    def there(self, at: float) -> bool:
        return self.made_at <= at < self.gone_at

    def runs(self, at: float) -> bool:
        return self.running_at <= at < self.over_at


@dataclass(slots=True)
class Thing:
    """A service, ReplicaSet, batch Job or PodGroup."""

    bucket: str
    name: str
    uid: str
    made_at: float
    made_by: Author
    raw: Json
    index: int | None
    role: str
    asked_at: float = NEVER
    """When its deletion was asked for."""
    gone_at: float = NEVER
    gone_by: Author = "unknown"
    sizes: list[tuple[float, int]] = field(default_factory=list)
    """Its `replicas` or `parallelism`, or how many pods start together; from when on."""

    def size(self, at: float) -> int:
        place = bisect_right(self.sizes, at, key=lambda one: one[0])
        return self.sizes[max(0, place - 1)][1]


@dataclass(slots=True)
class Version:
    at: float
    author: Author
    job: TrainingJob | None
    """None: its spec is not valid."""
    status: Json
    """The operator's own."""
    generation: int
    told: Json = field(default_factory=dict)
    """What the users of another operator's kind read of it."""
    until: float = NEVER


@dataclass(slots=True)
class Node:
    ill: list[tuple[float, float]] = field(default_factory=list)
    """From when to when it was gone or not Ready."""
    gpu_ill: list[tuple[float, float]] = field(default_factory=list)
    """From when to when a condition called its GPUs faulty."""
    gpus: list[tuple[float, int]] = field(default_factory=list)
    """How many it can give to pods, from when on."""

    def gpus_at(self, seconds: float) -> int:
        place = bisect_right(self.gpus, seconds, key=lambda one: one[0])
        return self.gpus[place - 1][1] if place else 0


@dataclass(slots=True)
class Life:
    """One job from its creation until it is gone, or until the chronicle ends."""

    uid: str
    name: str
    kind: str
    began_at: float
    versions: list[Version]
    until: float = NEVER
    """The end of the chronicle."""
    due_seconds: float = DUE_SECONDS
    asked_at: float = NEVER
    """When its deletion was asked."""
    asked_by: Author = "unknown"
    gone_at: float = NEVER
    ending_at: float = NEVER
    ended_at: float = NEVER
    pods: list[Pod] = field(default_factory=list)
    things: list[Thing] = field(default_factory=list)
    boards: list[Pod | Thing] = field(default_factory=list)
    """Its TensorBoards and their services, which count as no pods and services of the job."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    made: list[Write] = field(default_factory=list)
    """Writes that made an object of it."""
    earlier: list[Life] = field(default_factory=list)
    """Jobs of the same name before it, whose pods may hold the names of its own."""

    def at(self, seconds: float) -> Version:
        place = bisect_right(self.versions, seconds, key=lambda one: one.at)
        return self.versions[max(0, place - 1)]

    def during(self, first: float, last: float) -> list[Version]:
        """The versions of which each was the newest at some moment between these two."""
        return [one for one in self.versions if one.at <= last and one.until >= first]

    def valid(self, first: float, last: float) -> bool:
        """Whether its spec was, all that time."""
        return all(one.job is not None for one in self.during(first, last))

    def jobs(self, first: float, last: float) -> list[TrainingJob]:
        found: list[TrainingJob] = []
        for one in self.during(first, last):
            if one.job is not None and (not found or found[-1] is not one.job):
                found.append(one.job)
        return found

    def roles(self, name: str, first: float, last: float) -> list[Role]:
        return [role for job in self.jobs(first, last) for role in job.roles if role.name == name]

    def statuses(self) -> Iterator[tuple[Version, Version]]:
        """Each version in which the status has changed, after the one before it."""
        for before, after in zip(self.versions, self.versions[1:], strict=False):
            if after.status is not before.status:
                yield before, after

    def of_role(self, role: str) -> list[Pod]:
        return [pod for pod in self.pods if pod.role == role]

    def of_index(self, role: str, index: int) -> list[Pod]:
        return [pod for pod in self.pods if pod.role == role and pod.index == index]

    def says(self, seconds: float) -> str:
        return f"{seconds - self.began_at:.1f} s"

    @property
    def over_at(self) -> float:
        """From when on nothing is due any more but its end."""
        return min(self.asked_at, self.gone_at, self.ending_at, self.ended_at)

    def seconds_of(self, phase: str, first: float, last: float) -> float:
        """How long between these two its status has said that phase."""
        return sum(
            max(0.0, min(one.until, last) - max(one.at, first))
            for one in self.versions
            if one.status.get("phase") == phase
        )
