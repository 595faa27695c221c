"""The result of a simulation, and its figures. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class JobOutcome:
    name: str
    submitted_at: float
    started_at: float | None = None
    """The second at which its quorum of trainers and all its other roles ran for the first time."""
    first_replica_at: float | None = None
    """The second at which its first trainer ran. Other trainers and roles may still have waited then."""
    ended_at: float | None = None
    moves: int = 0
    """How often the policy changed its target."""
    restarts: int = 0
    """How many replicas were lost with a node or preempted."""
    pauses: int = 0
    """How often the job paused because replicas had come or gone."""
    replicas: list[tuple[float, int]] = field(default_factory=list)
    """(second, number of replicas that run from then on), ascending."""

    def at(self, second: float) -> int:
        """The number of replicas that run at that second."""
        i = bisect_right(self.replicas, second, key=lambda point: point[0])
        return self.replicas[i - 1][1] if i else 0


@dataclass(slots=True)
class Sample:
    """The cluster from second `at` until the next sample."""

    at: float
    cpu_milli: int
    """Requested by pods on nodes, including pods that are not simulated."""
    gpus: int
    missing: int
    """The number of pods that services lack."""


@dataclass(slots=True)
class SimulationOutcome:
    policy: str
    ended_at: float
    cpu_total_milli: int
    gpu_total: int
    jobs: list[JobOutcome]
    samples: list[Sample]
    decisions: int = 0

    @property
    def by_gpu(self) -> bool:
        return self.gpu_total > 0

    # -- figures -------------------------------------------------------------------------------------
    def waiting_seconds(self) -> list[float]:
        """For each submitted job, the time from submission to start; to the simulation's end if it never started."""
        # Without the jobs that never started, a policy that starves jobs would look good.
        submitted = (j for j in self.jobs if j.submitted_at <= self.ended_at)
        return [(self.ended_at if j.started_at is None else j.started_at) - j.submitted_at for j in submitted]

    def completion_seconds(self) -> list[float]:
        """For each job that has ended, the time from submission to end."""
        return [j.ended_at - j.submitted_at for j in self.jobs if j.ended_at is not None]

    def utilisation(self, begin: float = 0.0, end: float | None = None) -> float:
        """The mean fraction of the cluster's GPUs that pods requested from `begin` to `end`; of its CPUs if it has no
        GPUs."""
        end = self.ended_at if end is None else end
        total = self.gpu_total if self.by_gpu else self.cpu_total_milli
        if end <= begin or not total:
            return 0.0
        area = 0.0
        for i, sample in enumerate(self.samples):
            until = self.samples[i + 1].at if i + 1 < len(self.samples) else self.ended_at
            seconds = min(until, end) - max(sample.at, begin)
            if seconds > 0:
                area += seconds * (sample.gpus if self.by_gpu else sample.cpu_milli)
        return area / total / (end - begin)

    def jain(self, second: float) -> float:
        """Jain's index of the replicas of the live jobs at that second; 1 if there are fewer than two jobs."""
        alive = [j for j in self.jobs if j.submitted_at <= second and (j.ended_at is None or j.ended_at > second)]
        return jain([j.at(second) for j in alive])

    def mean_jain(self) -> float:
        """The mean of `jain` over the time in which at least two jobs were alive; 1 if there was none."""
        # Between two of these instants no job's number of replicas changes.
        marks = sorted({j.submitted_at for j in self.jobs} | {t for j in self.jobs for t, _ in j.replicas})
        marks = [t for t in marks if t < self.ended_at]
        area = seconds = 0.0
        for i, begin in enumerate(marks):
            span = (marks[i + 1] if i + 1 < len(marks) else self.ended_at) - begin
            alive = sum(j.submitted_at <= begin and (j.ended_at is None or j.ended_at > begin) for j in self.jobs)
            if alive > 1 and span > 0:
                area, seconds = area + span * self.jain(begin), seconds + span
        return area / seconds if seconds else 1.0

    def to_json(self) -> dict[str, Any]:
        jobs = [
            {
                "name": j.name,
                "submitted": j.submitted_at,
                "started": _rounded(j.started_at),
                "ended": _rounded(j.ended_at),
                "moves": j.moves,
                "restarts": j.restarts,
                "pauses": j.pauses,
            }
            for j in self.jobs
        ]
        return {
            "waiting_seconds": summary(self.waiting_seconds()),
            "completion_seconds": summary(self.completion_seconds()),
            "jobs_done": len(self.completion_seconds()),
            "jobs_total": len(self.jobs),
            "ended_at_seconds": round(self.ended_at, 3),
            "utilisation": round(self.utilisation(), 4),
            "jain": round(self.mean_jain(), 4),
            "moves": sum(j.moves for j in self.jobs),
            "restarts": sum(j.restarts for j in self.jobs),
            "pauses": sum(j.pauses for j in self.jobs),
            "decisions": self.decisions,
            "jobs": jobs,
        }


def jain(shares: Sequence[float]) -> float:
    """Raj Jain's index of fairness: (sum of x)^2 / (n * sum of x^2)."""
    squares = sum(x * x for x in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if len(shares) > 1 and squares else 1.0


def summary(seconds: Sequence[float]) -> dict[str, float | None]:
    """Mean, percentiles and maximum, rounded to milliseconds; None for an empty list."""
    if not seconds:
        return {"mean": None, "p50": None, "p95": None, "max": None}
    ordered = sorted(seconds)

    def part(share: float) -> float:
        # The nearest rank, without interpolation: each figure is that of a job.
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)

    return {"mean": round(sum(ordered) / len(ordered), 3), "p50": part(0.5), "p95": part(0.95), "max": part(1.0)}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
