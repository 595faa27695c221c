"""Settings that decide something about a job. Pure data: `controllers.jobs.reconcile_rules` makes it of Settings."""

from __future__ import annotations

from dataclasses import dataclass

from tjworker.api.kinds import trainingjob
from tjworker.api.model import InvalidJob, TrainingJob
from tjworker.api.reporting import ReportServer


@dataclass(frozen=True, slots=True)
class Rules:
    """Fields as in `tjworker.settings.Settings`, which has the defaults and says what each one means."""

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
    """First and last."""
    gang: str = "none"
    """A row of `gangs.GANGS`, or `none`."""
    gang_scheduler_name: str = ""
    reports: ReportServer | None = None
    """None: pods are not told where to report their progress."""


def keeps_all(job: TrainingJob | InvalidJob, autoclean: bool) -> bool:
    """Without autoclean, nothing of a job that ReplicaSets and a batch Job keep is taken away at its end, whichever:
    of a TrainingJob, though its spec cannot be used."""
    return not autoclean and job.name.resource == trainingjob.RESOURCE
