"""The fields of Volcano's Job (batch.volcano.sh/v1alpha1) that the conversion reads; it reports all others. Pure."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from tjworker.api.kinds.aitrainingjob.rules import MAX_REPLICAS
from tjworker.api.kinds.base import CamelModel
from tjworker.api.podtemplate import PRESERVE, PodTemplate

# Volcano sets it for a job or a task without maxRetry.
DEFAULT_RETRIES = 3


class Open(CamelModel):
    """An object that is kept as the user wrote it."""

    model_config = ConfigDict(frozen=True, extra="allow", json_schema_extra=PRESERVE)


class LifecyclePolicy(CamelModel):
    """What Volcano does at an event."""

    action: str = ""
    event: str = ""
    events: list[str] = Field(default_factory=list)
    exit_code: int | None = None
    timeout: str | None = None

    def is_at(self, *events: str) -> bool:
        return bool({*events, "*"} & {self.event, *self.events})


class Volume(CamelModel):
    """A volume of every task."""

    mount_path: str
    volume_claim_name: str = ""
    volume_claim: Open | None = None


class Task(CamelModel):
    """A group of equal pods."""

    name: str = ""
    replicas: int = Field(0, ge=0, le=MAX_REPLICAS)
    min_available: int | None = None
    template: PodTemplate
    policies: list[LifecyclePolicy] = Field(default_factory=list)
    topology_policy: str = ""
    max_retry: int = 0
    depends_on: Open | None = None
    partition_policy: Open | None = None


class JobSpec(CamelModel):
    """The spec of the job."""

    scheduler_name: str = ""
    min_available: int = 0
    volumes: list[Volume] = Field(default_factory=list)
    tasks: list[Task] = Field(min_length=1, max_length=16)
    policies: list[LifecyclePolicy] = Field(default_factory=list)
    plugins: dict[str, list[str]] = Field(default_factory=dict)
    running_estimate: str | None = None
    queue: str = ""
    max_retry: int = 0
    ttl_seconds_after_finished: int | None = Field(None, ge=0)
    priority_class_name: str = ""
    min_success: int | None = None
    network_topology: Open | None = None

    def task_name(self, index: int) -> str:
        """The task's name; without one, the name that Volcano's webhook gives."""
        return self.tasks[index].name or f"default{index}"
