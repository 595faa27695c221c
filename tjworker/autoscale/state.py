"""The state of the jobs for the autoscaler, and which jobs it may scale. Pure.

Names and meaning come from PaddlePaddle EDL (`findPendingJob`, `findTrainingJobsMightBeRescheduled`). There only master
and pserver count; here every role counts, because a job does not run without its trainers either. A pod is
unschedulable if its condition PodScheduled says so.
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
    """What the job has reported; None if it never has."""
    namespace_policy: str = ""
    """The policy that the label of its namespace names; '' without such a label."""

    @classmethod
    def observe(cls, job: TrainingJob, pods: tuple[PodRecord, ...], namespace_policy: str = "") -> JobState:
        """The state of a job, with the progress that its status reports."""
        return cls(job, pods, read_progress(job.status), namespace_policy)

    @property
    def alive(self) -> bool:
        """True if the job runs or will run: accepted, and not ended, ending, suspended or being deleted."""
        job = self.job
        stops = job.deleted_at is not None or job.suspend or job.status.ended or bool(job.status.ending)
        return bool(job.status.phase) and not stops

    def of_role(self, role: Role) -> tuple[PodRecord, ...]:
        """The pods of the role that have not ended, by ordinal. The last pods go first."""
        mine = (p for p in self.pods if p.labels.get(labels.REPLICA_NAME) == role.name and p.phase not in ENDED_PHASES)
        return tuple(sorted(mine, key=_index))

    def has_failed_pods(self, role: Role) -> bool:
        return any(p.phase == "Failed" and p.labels.get(labels.REPLICA_NAME) == role.name for p in self.pods)

    def finished_replicas(self, role: Role) -> int:
        """The number of replicas that need no pod any more: completed, or failed for good."""
        attempts = self.job.status.attempts.roles.get(role.name)
        if attempts is None:
            return 0
        done = parse_indices(attempts.completed, role.replicas) | parse_indices(attempts.failed, role.replicas)
        return len(done)


def _index(pod: PodRecord) -> tuple[int, str]:
    # A label may have been edited. A bad index sorts last.
    text = pod.labels.get(labels.REPLICA_INDEX, "")
    return (int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 1 << 30, pod.name)


def find_pending_job(states: Iterable[JobState]) -> bool:
    """True if a live job waits for room: all pods of one of its roles are unschedulable."""
    return any(_all_unschedulable(state.of_role(role)) for state in states if state.alive for role in state.job.roles)


def _all_unschedulable(pods: tuple[PodRecord, ...]) -> bool:
    return bool(pods) and all(pod.unschedulable and not pod.node for pod in pods)


def find_training_jobs_might_be_rescheduled(states: Iterable[JobState], have_pending: bool) -> list[JobState]:
    """The jobs that may be scaled: all live jobs if a pod waits for room (`have_pending`), else only running jobs."""
    # A job that is still starting holds room, too, and may have to give it to a pod that waits.
    return [state for state in states if state.alive and (have_pending or state.job.status.phase == "Running")]
