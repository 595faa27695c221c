"""Roles whose number of replicas the autoscaler may choose, and the order in which they are served. Pure.

Names and meaning come from PaddlePaddle EDL (`elastic`, `needGPU`, `sortedJobs`). Of equally fulfilled jobs the least
demanding comes first, because the same room then holds more replicas. GPUs count by limit, other resources by request:
an extended resource cannot be overcommitted, so its limit is its request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ElasticJob:
    """An elastic role. Requests are those of one replica. Names are unique among the jobs of one plan."""

    name: str
    min_instance: int
    max_instance: int
    parallelism: int
    """The current target, in replicas."""
    cpu_request_milli: int = 0
    memory_request_mega: int = 0
    gpu_limit: int = 0
    others: tuple[tuple[str, int], ...] = ()
    """(resource, amount) of `Nodes.others_free` that one replica takes of its node."""
    placed: tuple[str, ...] = ()
    """The node of each replica, '' for a replica without a node; the last replica goes first. If empty, the room that
    this job gives up belongs to no node."""
    ceiling: int | None = None
    """Replicas beyond which a plan does not grow the job now, although its maximum is higher."""
    floor: int | None = None
    """Replicas below which a plan does not shrink the job now, although its minimum is lower."""

    @property
    def highest(self) -> int:
        """The most replicas that a plan may give the job."""
        return self.max_instance if self.ceiling is None else min(self.max_instance, self.ceiling)

    @property
    def lowest(self) -> int:
        """The fewest replicas that a plan may leave the job. The maximum overrides the floor."""
        return self.min_instance if self.floor is None else max(self.min_instance, min(self.max_instance, self.floor))

    @property
    def fulfillment(self) -> float:
        """The position of the target between the minimum (0) and the maximum (1)."""
        # A fixed job is fulfilled: it has what it can have.
        if self.max_instance <= self.min_instance:
            return 1.0
        return (self.parallelism - self.min_instance) / (self.max_instance - self.min_instance)


Filter = Callable[[ElasticJob], bool]


def elastic(job: ElasticJob) -> bool:
    return job.min_instance < job.max_instance


def need_gpu(job: ElasticJob) -> bool:
    return job.gpu_limit > 0


def sorted_jobs(jobs: Iterable[ElasticJob], *filters: Filter) -> list[ElasticJob]:
    """The jobs that pass every filter, the least fulfilled first, then the least demanding. Equal jobs keep their
    order."""
    return sorted((job for job in jobs if all(passes(job) for passes in filters)), key=_need)


def _need(job: ElasticJob) -> tuple[float, int, int, int]:
    # GPUs first, as in EDL: they are the scarcest resource.
    return (job.fulfillment, job.gpu_limit, job.cpu_request_milli, job.memory_request_mega)
