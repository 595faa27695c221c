"""The common fields of KubeDL's job kinds (training.kubedl.io/v1alpha1). Most have the run policy in the spec itself.
Pure.
"""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.spec import AsWritten, ReplicaSpec, RunFields, SchedulingFields


class SchedulingPolicy(SchedulingFields):
    """How a gang scheduler handles the pods of the job."""

    priority: int | None = Field(None, description="priority in the queue; ignored, the condition Created says so")
    priority_class_name: str | None = Field(
        None, max_length=253, description="PriorityClass of the PodGroup, and of pods whose template names none"
    )
    queue: str | None = Field(None, max_length=253, description="queue of the PodGroup (Volcano)")


class KubeDLReplicaSpec(ReplicaSpec):
    """The pods of one role."""

    spot_replica_spec: AsWritten | None = Field(
        None, description="replicas on cheaper nodes; ignored, the condition Created says so"
    )


class KubeDLRunPolicy(RunFields):
    """Policies for the whole job."""

    scheduling_policy: SchedulingPolicy | None = Field(None, description="how a gang scheduler handles the pods")
    cron_policy: AsWritten | None = Field(
        None, description="schedule of runs; ignored: the job runs once. A CronJob can create jobs"
    )


class ModelFields(CamelModel):
    """Fields for what KubeDL does before and after the training."""

    model_version: AsWritten | None = Field(None, description="image of the trained model; ignored")
    cache_backend: AsWritten | None = Field(None, description="cache of the data set; ignored")


class GitSyncFields(CamelModel):
    """Source code from git."""

    git_sync_config: AsWritten | None = Field(
        None, description="ignored here: use the annotation kubedl.io/git-sync-config"
    )
