"""The jobs as the autoscaler finds them, and which of them it may scale. Pure.

Names and meaning: PaddlePaddle EDL (`findPendingJob`, `findTrainingJobsMightBeRescheduled`). Unlike there, every role
counts and not only master and pserver, because a job without its trainers does not run either. A pod is unschedulable
when its condition PodScheduled says so, whatever else it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tjworker.api import labels
from tjworker.api.indices import parse_indices
from tjworker.api.model import Role, TrainingJob
from tjworker.api.observed import ENDED_PHASES, PodRecord
from tjworker.api.progress import Progress, read_progress


@dataclass(frozen=True, slots=True)
class JobState:
    """A job and its pods."""

    job: TrainingJob
    pods: tuple[PodRecord, ...] = ()
    progress: Progress | None = None
    """What the job has reported; None for one that never has."""
    namespace_policy: str = ""
    """The policy that the label of its namespace names; '' without such a label."""

    @classmethod
    def observe(cls, job: TrainingJob, pods: tuple[PodRecord, ...], namespace_policy: str = "") -> JobState:
        """The state of a job as its status tells it, with everything that a policy may ask."""
        return cls(job, pods, read_progress(job.status), namespace_policy)

    @property
    def alive(self) -> bool:
        """It runs or will run: accepted, and not ended, ending, suspended or being deleted."""
        job = self.job
        return bool(job.status.phase and not (job.deleted_at or job.suspend or job.status.ended or job.status.ending))

    def of_role(self, role: Role) -> tuple[PodRecord, ...]:
        """Pods that have not ended, by ordinal: the last go first."""
        mine = (p for p in self.pods if p.labels.get(labels.REPLICA_NAME) == role.name and p.phase not in ENDED_PHASES)
        return tuple(sorted(mine, key=_index))

    def has_failed_pods(self, role: Role) -> bool:
        return any(p.phase == "Failed" and p.labels.get(labels.REPLICA_NAME) == role.name for p in self.pods)

    def finished_replicas(self, role: Role) -> int:
        """Replicas that need no pod any more."""
        attempts = self.job.status.attempts.roles.get(role.name)
        if attempts is None:
            return 0
        done = parse_indices(attempts.completed, role.replicas) | parse_indices(attempts.failed, role.replicas)
        return len(done)


def _index(pod: PodRecord) -> tuple[int, str]:
    text = pod.labels.get(labels.REPLICA_INDEX, "")
    return (int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 1 << 30, pod.name)


def find_pending_job(states: Iterable[JobState]) -> bool:
    """Some job waits for room: all pods of one of its roles are unschedulable."""
    return any(_all_unschedulable(state.of_role(role)) for state in states if state.alive for role in state.job.roles)


def _all_unschedulable(pods: tuple[PodRecord, ...]) -> bool:
    return bool(pods) and all(pod.unschedulable and not pod.node for pod in pods)


def find_training_jobs_might_be_rescheduled(states: Iterable[JobState], have_pending: bool) -> list[JobState]:
    """Those that may be scaled: all that are alive when some pod waits for room, else only those that run."""
    return [state for state in states if state.alive and (have_pending or state.job.status.phase == "Running")]
