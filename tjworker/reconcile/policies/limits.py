"""Time limits: timeLimit counts from the first Running, activeDeadlineSeconds from the start. A suspension after that
moment does not count. Pure."""

from __future__ import annotations

from tjworker.api.model import TrainingJob
from tjworker.api.status import DEADLINE_EXCEEDED, JobStatus
from tjworker.api.timefmt import from_rfc3339
from tjworker.reconcile.one_pass import Pass


def end_by_deadline(p: Pass) -> Pass:
    running, active = time_left(p.job, p.status, p.now)
    if running is not None and running <= 0:
        message = f"the job has run for longer than {p.job.time_limit_field} {p.job.time_limit_seconds} s"
        return p.end_with("Timeout", "TimeLimitExceeded", message)
    if active is not None and active <= 0:
        message = f"the job has been active for longer than activeDeadlineSeconds {p.job.active_deadline_seconds}"
        return p.end_with("Failed", DEADLINE_EXCEEDED, message)
    return p


def seconds_to_deadline(job: TrainingJob, status: JobStatus, now: float) -> float | None:
    """Seconds until the first of the two limits; None if there is none."""
    return min((left for left in time_left(job, status, now) if left is not None), default=None)


def time_left(job: TrainingJob, status: JobStatus, now: float) -> tuple[float | None, float | None]:
    """Seconds left of (timeLimit, activeDeadlineSeconds); None for a limit that is not set or has not begun."""
    suspended_since_running = status.suspended_seconds - status.suspended_seconds_before_running
    running = _left(job.time_limit_seconds, status.start_running_time, suspended_since_running, now)
    # As for a batch Job, whose startTime is set again when it is resumed.
    if job.deadline_begins_anew:
        return running, _left(job.active_deadline_seconds, _active_since(status), 0, now)
    return running, _left(job.active_deadline_seconds, status.start_time, status.suspended_seconds, now)


def _active_since(status: JobStatus) -> str | None:
    """When the job last began: its last resume, or else its start."""
    suspended = status.condition("Suspended")
    resumed = suspended is not None and suspended.status == "False"
    return suspended.last_transition_time if suspended is not None and resumed else status.start_time


def _left(limit: int | None, since: str | None, suspended: int, now: float) -> float | None:
    """`suspended`: seconds for which the job was suspended after `since`."""
    started = from_rfc3339(since)
    return None if limit is None or started is None else started + limit + suspended - now
