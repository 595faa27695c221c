"""Counts changes of a job's status in the metrics. It counts after the status was written, so that an interrupted pass
counts once."""

from __future__ import annotations

from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.status import JobStatus, RestartCounts
from tjworker.api.timefmt import from_rfc3339
from tjworker.telemetry.metrics import ALL_RUNNING, ENDS, FIRST_POD, RESTARTS

NO_RESTARTS = RestartCounts()


def count_status(job: TrainingJob | InvalidJob, after: JobStatus) -> None:
    """Count the change to the status `after`. `job`: before the change."""
    before = job.status
    if after.ended and not before.ended:
        ENDS.inc(kind=job.kind, phase=after.phase)
    for role, counts in after.restart_counts.items():
        was = before.restart_counts.get(role, NO_RESTARTS)
        for cause in RestartCounts.model_fields:
            if (more := getattr(counts, cause) - getattr(was, cause)) > 0:
                RESTARTS.inc(more, cause=cause)
    if isinstance(job, TrainingJob) and after.start_running_time and not before.start_running_time:
        running = from_rfc3339(after.start_running_time)
        if job.created_at is not None and running is not None:
            # creationTimestamp is of the API server's clock, cut to whole seconds; the other time is of the operator's
            # clock.
            ALL_RUNNING.observe(max(0.0, running - job.created_at), kind=job.kind)


def count_first_pod(job: TrainingJob | InvalidJob, now: float) -> None:
    """Count after the first pass that created an object for the job."""
    if isinstance(job, TrainingJob) and job.created_at is not None:
        FIRST_POD.observe(max(0.0, now - job.created_at), kind=job.kind)
