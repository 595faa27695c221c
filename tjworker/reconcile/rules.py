"""The settings that decide about jobs. `controllers.jobs.reconcile_rules` makes them from Settings. Pure data."""

from __future__ import annotations

from dataclasses import dataclass

from tjworker.api.kinds import trainingjob
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.reporting import ReportServer


@dataclass(frozen=True, slots=True)
class Rules:
    """Fields as in `tjworker.settings.Settings`, which has their defaults and descriptions."""

    writes_per_pass: int
    node_failure_grace_seconds: float
    creating_duration_seconds: float
    creating_restart_seconds: float
    enable_creating_failed: bool
    gpu_resources: tuple[str, ...]
    gpu_fault_conditions: tuple[str, ...]
    restart_limit: int
    autoclean: bool
    own_namespace: str = ""
    git_sync_image: str = ""
    host_ports: tuple[int, int] | None = None
    """The first and the last port."""
    gang: str = "none"
    """A row of `gangs.GANGS`, or `none`."""
    gang_scheduler_name: str = ""
    reports: ReportServer | None = None
    """None: pods get no address for reports of their progress."""


def keeps_all(job: TrainingJob | InvalidJob, autoclean: bool) -> bool:
    """True if the job's end deletes nothing: autoclean is off, and the job is a TrainingJob, whose pods ReplicaSets and
    a batch Job keep. Also if its spec is unusable."""
    return not autoclean and job.name.resource == trainingjob.RESOURCE
