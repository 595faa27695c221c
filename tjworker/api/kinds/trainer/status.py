"""The status of a TrainJob in the form of Trainer 2.3, for the programs that read it. Pure.

Trainer's clients find out by the pods that a job runs, and only while it has no condition. So it has only Trainer's
conditions, and `Waiting` for a job without a runtime, which Trainer's webhook would have refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from tjworker.api.kinds.base import CamelModel, Parsed
from tjworker.api.model import Role, TrainingJob
from tjworker.api.status import DEADLINE_EXCEEDED, INVALID_SPEC, Condition, JobStatus, ReplicaStatus, TrainerStatus

COMPLETED = ("AllJobsCompleted", "jobset completed successfully")
"""JobSet's reason and message for a success (`setJobSetCompletedCondition`). Clients look for them."""


class TrainJobCondition(CamelModel):
    """A condition of the job."""

    type: str = Field(description="Suspended, Complete, Failed, or Waiting")
    status: str = Field(description="True, False or Unknown")
    observed_generation: int | None = Field(None, description="metadata.generation of the job for this condition")
    last_transition_time: str = Field(description="when status last changed")
    reason: str = Field(description="reason, as one word")
    message: str = Field("", description="reason, for people")


class ChildJobStatus(CamelModel):
    """Child Jobs of one replicated job by state."""

    name: str = Field(description="name of the replicated job")
    ready: int = Field(ge=0, description="child Jobs all of whose pods run or have succeeded")
    succeeded: int = Field(ge=0, description="succeeded child Jobs")
    failed: int = Field(ge=0, description="child Jobs that have failed for good")
    active: int = Field(ge=0, description="child Jobs with a pod that waits or runs")
    suspended: int = Field(ge=0, description="suspended child Jobs")


class TrainJobStatus(CamelModel):
    """State of the job, as Kubeflow's Trainer reports it."""

    conditions: list[TrainJobCondition] = Field(
        default_factory=list,
        description="conditions of the job, newest last. Empty while it runs: clients look at its pods then",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    jobs_status: list[ChildJobStatus] = Field(
        default_factory=list,
        description="the replicated jobs of the runtime",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
    )
    trainer_status: TrainerStatus | None = Field(None, description="progress, as the training program reports it")
    operator: JobStatus = Field(
        JobStatus(),
        description="status of this operator: phase, failures with the end of their logs,"
        " restarts by cause, and the runtime as it was when the job began",
    )


def write_status(job: Parsed, status: JobStatus) -> dict[str, Any]:
    written: dict[str, Any] = {}
    if conditions := list(_conditions(job, status)):
        written["conditions"] = conditions
    if isinstance(job, TrainingJob) and (counts := list(_jobs_status(job, status))):
        written["jobsStatus"] = counts
    return written


def _conditions(job: Parsed, status: JobStatus) -> Iterator[dict[str, Any]]:
    by_type = {c.type: c for c in status.conditions}
    for of, name in (
        # No Created and no Running: Trainer's client counts running pods only while there is no condition, so that with
        # either of them `wait_for_job_status` for Running would time out.
        ("Waiting", "Waiting"),
        ("Suspended", "Suspended"),
        ("Succeeded", "Complete"),
        ("Failed", "Failed"),
    ):
        one = by_type.get(of)
        # Trainer leaves Suspended at False after a resume, and writes every other condition only when it is True.
        if one is None or (one.status != "True" and name != "Suspended"):
            continue
        reason, message = _words(job, status, name, one)
        yield {
            "type": name,
            "status": one.status,
            "observedGeneration": one.observed_generation,
            "lastTransitionTime": one.last_transition_time,
            "reason": reason,
            "message": message,
        }


def _words(job: Parsed, status: JobStatus, name: str, one: Condition) -> tuple[str, str]:
    """(reason, message) as in `setSuspendedCondition` and `setFailedCondition` of Trainer; at the end, JobSet's."""
    if name == "Suspended":
        suspended = one.status == "True"
        return ("Suspended", "TrainJob is suspended") if suspended else ("Resumed", "TrainJob is resumed")
    if name == "Complete":
        return COMPLETED
    if name == "Failed" and one.reason == DEADLINE_EXCEEDED:
        return DEADLINE_EXCEEDED, "TrainJob exceeded its active deadline"
    if name == "Failed" and one.reason != INVALID_SPEC:
        first = _first_failed(job, status)
        words = (
            f"jobset failed due to one or more job failures (first failed job: {first})" if first else "jobset failed"
        )
        return "FailedJobs", f"{words}; {one.message}"
    return one.reason, one.message


def _first_failed(job: Parsed, status: JobStatus) -> str:
    """The child Job of the pod whose failure has ended the job."""
    pods = [failure.pod for failure in status.failures]
    names = [f"{job.name.name}-{role.name}" for role in job.roles] if isinstance(job, TrainingJob) else []
    return next((name for pod in pods for name in names if pod.rpartition("-")[0] == name), "")


def _jobs_status(job: TrainingJob, status: JobStatus) -> Iterator[dict[str, Any]]:
    """`calculateReplicatedJobStatuses` of JobSet."""
    steps: dict[str, list[dict[str, int]]] = {}
    for role in job.roles:
        counts = status.replica_statuses.get(role.name)
        if counts is not None:
            steps.setdefault(role.name.rpartition("-")[0], []).append(_counted(job, role, status, counts))
    for name, children in steps.items():
        total: Mapping[str, int] = {field: sum(one[field] for one in children) for field in children[0]}
        yield {"name": name, **total}


def _counted(job: TrainingJob, role: Role, status: JobStatus, counts: ReplicaStatus) -> dict[str, int]:
    wanted = counts.desired
    # These are numbers of child Jobs, not of pods. A Job with a failed pod has failed once the pod is not replaced.
    failed = status.phase not in ("", "Succeed") and status.ended and counts.failed > 0
    succeeded = not failed and counts.succeeded >= wanted
    suspended = status.phase == "Suspended"
    lives = not (failed or succeeded or suspended or status.ended)
    pods = counts.pending + counts.scheduled + counts.active + counts.restarting
    begun = lives and pods > 0 and not _is_held(job, role, status)
    # JobSet counts succeeded pods of a Job as ready. A Job whose pods have all succeeded is succeeded and no longer
    # ready.
    ready = lives and counts.active > 0 and counts.active + counts.succeeded >= wanted
    flags = {"ready": ready, "succeeded": succeeded, "failed": failed, "active": begun, "suspended": suspended}
    return {name: int(value) for name, value in flags.items()}


def _is_held(job: TrainingJob, role: Role, status: JobStatus) -> bool:
    """True if its pods wait for another role. JobSet would not have created its Job yet."""
    for after in role.after:
        other = status.replica_statuses.get(after.role)
        done = other is not None and other.succeeded + (0 if after.status == "Complete" else other.active)
        if other is None or done < other.desired:
            return status.replica_statuses[role.name].active == 0
    return False
