"""JAXJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from tjworker.api.kinds.guests.kind import Specs
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.kinds.kubeflow.family import KubeflowKind
from tjworker.api.kinds.kubeflow.spec import KubeflowSpec
from tjworker.api.model import EndPolicy

ROLES = ("Worker",)


class JAXJobSpec(KubeflowSpec):
    """Specification of the job."""

    jax_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1, max_length=16, description="Worker", json_schema_extra=role_rules(ROLES, "JAXJob")
    )


class JAXJob(KubeflowKind[JAXJobSpec]):
    kind = "JAXJob"
    plural = "jaxjobs"
    description = "A JAX job of Kubeflow: workers, the first of which is the coordinator."
    spec_model = JAXJobSpec
    roles_field = "jaxReplicaSpecs"
    roles = ROLES
    framework = "jax"
    container = "jax"

    def replica_specs(self, spec: JAXJobSpec) -> Specs:
        return spec.jax_replica_specs

    def complete_policies(self, spec: JAXJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        return {"Worker": "All"}


JOB_KIND = JAXJob()
