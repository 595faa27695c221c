"""ElasticDLJob (training.kubedl.io/v1alpha1): a master, which creates its workers and parameter servers itself, with a
service account of its own. The operator manages only the master, and ignores the other pods (ADR 28). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from tjworker.api.kinds.guests.kind import Specs
from tjworker.api.kinds.guests.spec import role_rules
from tjworker.api.kinds.kubedl.family import RunPolicyInSpec
from tjworker.api.kinds.kubedl.spec import GitSyncFields, KubeDLReplicaSpec, KubeDLRunPolicy
from tjworker.api.model import EndPolicy

ROLES = ("Master",)


class ElasticDLJobSpec(GitSyncFields, KubeDLRunPolicy):
    """Specification of the job."""

    elasticdl_replica_specs: dict[str, KubeDLReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Master, whose program creates the other pods itself",
        json_schema_extra=role_rules(ROLES, "ElasticDLJob", lone=("Master",), needed=("Master",)),
    )


class ElasticDLJob(RunPolicyInSpec[ElasticDLJobSpec]):
    kind = "ElasticDLJob"
    plural = "elasticdljobs"
    description = "An ElasticDL job of KubeDL: a master, which creates its workers itself."
    spec_model = ElasticDLJobSpec
    roles_field = "elasticdlReplicaSpecs"
    roles = ROLES
    lone = ("Master",)
    needed = ("Master",)
    # No framework: the master hands its address to the pods that it creates.
    framework = ""
    container = "elasticdl"
    # Without a value KubeDL's controller crashes at the end of the job; its API's comment says Running.
    clean_pod_policy = "Running"

    def replica_specs(self, spec: ElasticDLJobSpec) -> Specs:
        return spec.elasticdl_replica_specs

    def complete_policies(self, spec: ElasticDLJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        return {"Master": "All"}


JOB_KIND = ElasticDLJob()
