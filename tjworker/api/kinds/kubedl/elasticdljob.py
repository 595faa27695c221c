"""ElasticDLJob (training.kubedl.io/v1alpha1): a master, which makes its workers and parameter servers itself, by the
API server and with an account of its own. The master alone is the job's; its pods are nobody's here (ADR 28). Pure.
"""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Shape
from tjworker.api.kinds.guests.spec import role_rules
from tjworker.api.kinds.kubedl.family import KUBEDL
from tjworker.api.kinds.kubedl.spec import GitSyncFields, KubeDLReplicaSpec, KubeDLRunPolicy

ROLES = ("Master",)


class ElasticDLJobSpec(GitSyncFields, KubeDLRunPolicy):
    """What the job is to do."""

    elasticdl_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Master, whose program makes the other pods itself",
        json_schema_extra=role_rules(ROLES, "ElasticDLJob", lone=("Master",), needed=("Master",)),
    )


SHAPE = Shape(
    family=KUBEDL,
    kind="ElasticDLJob",
    plural="elasticdljobs",
    framework="",
    container="elasticdl",
    specs_field="elasticdlReplicaSpecs",
    roles=ROLES,
    spec_model=ElasticDLJobSpec,
    specs=lambda spec: spec.elasticdl_replica_specs,
    complete=lambda spec, specs: {"Master": "All"},
    clean_pod_policy="Running",
    lone=("Master",),
    needed=("Master",),
)
JOB_KIND = job_kind(SHAPE, "An ElasticDL job of KubeDL: a master, which makes its workers itself.")
