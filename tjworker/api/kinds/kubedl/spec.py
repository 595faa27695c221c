"""What the specs of KubeDL's job kinds (training.kubedl.io/v1alpha1) have in common: the run policy stands in the spec
itself. Pure.
"""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.spec import AsWritten, ReplicaSpec, RunFields, SchedulingFields


class SchedulingPolicy(SchedulingFields):
    """How a gang scheduler takes the pods of the job."""

    priority: int | None = Field(None, description="of the queue; not acted on, the condition Created says so")
    priority_class_name: str | None = Field(
        None, max_length=253, description="of the PodGroup, and of pods whose template names none"
    )
    queue: str | None = Field(None, max_length=253, description="queue of the PodGroup (Volcano)")


class KubeDLReplicaSpec(ReplicaSpec):
    """The pods of one role."""

    spot_replica_spec: AsWritten | None = Field(
        None, description="replicas on cheaper nodes; not acted on, the condition Created says so"
    )


class KubeDLRunPolicy(RunFields):
    """The job as a whole."""

    scheduling_policy: SchedulingPolicy | None = Field(None, description="how a gang scheduler handles the pods")
    cron_policy: AsWritten | None = Field(
        None, description="schedule of runs; not acted on: the job runs once. A CronJob can create jobs"
    )


class ModelFields(CamelModel):
    """What KubeDL does around a training that makes a model."""

    model_version: AsWritten | None = Field(None, description="an image of the trained model; not acted on")
    cache_backend: AsWritten | None = Field(None, description="a cache of the data set; not acted on")


class GitSyncFields(CamelModel):
    """Code from git, in a field."""

    git_sync_config: AsWritten | None = Field(
        None, description="not acted on here: use the annotation kubedl.io/git-sync-config"
    )
