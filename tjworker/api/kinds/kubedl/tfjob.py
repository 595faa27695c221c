"""TFJob (training.kubedl.io/v1alpha1). Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Shape
from tjworker.api.kinds.guests.spec import AsWritten, role_rules
from tjworker.api.kinds.guests.tensorflow import LONE, ROLES, complete
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import KubeDLReplicaSpec, KubeDLSpec


class TFJobSpec(KubeDLSpec):
    """What the job is to do."""

    success_policy: Literal["", "AllWorkers"] | None = Field(
        None,
        description="of a job without Chief and Master: empty, it succeeds with worker 0; `AllWorkers`, with the last",
    )
    tf_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="PS, Worker, Chief (or Master) and Evaluator",
        json_schema_extra=role_rules(ROLES, "TFJob"),
    )
    model_version: AsWritten | None = Field(None, description="an image of the trained model; not acted on")
    cache_backend: AsWritten | None = Field(None, description="a cache of the data set; not acted on")
    git_sync_config: AsWritten | None = Field(
        None, description="not acted on here: use the annotation kubedl.io/git-sync-config"
    )


SHAPE = Shape(
    family=KUBEDL,
    kind="TFJob",
    plural="tfjobs",
    framework="tensorflow",
    specs_field="tfReplicaSpecs",
    roles=ROLES,
    spec_model=TFJobSpec,
    specs=lambda spec: spec.tf_replica_specs,
    complete=lambda spec, specs: complete(spec.success_policy, specs),
    clean_pod_policy="Running",
    default_restart="ExitCode",
    lone=LONE,
)
JOB_KIND = job_kind(SHAPE, "A TensorFlow job of KubeDL: parameter servers, workers, a chief, an evaluator.")
