"""Limits of time: timeLimit from the first Running, activeDeadlineSeconds from the start. Suspended time does not count.
Pure."""

from __future__ import annotations

from tjworker.api.model import TrainingJob
from tjworker.api.status import Ending, JobStatus
from tjworker.api.timefmt import from_rfc3339, to_rfc3339


def _remaining(since: str | None, limit_seconds: int | None, status: JobStatus, now: float) -> float | None:
    started = from_rfc3339(since)
    if started is None or limit_seconds is None:
        return None
    return started + limit_seconds + status.suspended_seconds - now


def decide_limits(job: TrainingJob, status: JobStatus, now: float) -> tuple[Ending | None, float | None]:
    """(the end that a limit brings, seconds until the next limit). A suspended job's limits stand still."""
    if status.suspend_time:
        return None, None
    run = _remaining(status.start_running_time, job.time_limit_seconds, status, now)
    active = _remaining(status.start_time, job.active_deadline_seconds, status, now)
    at = to_rfc3339(now)
    if run is not None and run <= 0:
        message = f"the job has run for longer than spec.timeLimit {job.time_limit_seconds} s"
        return Ending(phase="Timeout", reason="TimeLimitExceeded", message=message, time=at), None
    if active is not None and active <= 0:
        message = f"the job has been active for longer than activeDeadlineSeconds {job.active_deadline_seconds}"
        return Ending(phase="Failed", reason="DeadlineExceeded", message=message, time=at), None
    waits = [w for w in (run, active) if w is not None]
    return None, min(waits) if waits else None
