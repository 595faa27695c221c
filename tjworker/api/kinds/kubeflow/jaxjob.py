"""JAXJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.kubeflow.parse import Shape, job_kind
from tjworker.api.kinds.kubeflow.spec import ReplicaSpec, RunPolicy, role_rules

ROLES = ("Worker",)


class JAXJobSpec(CamelModel):
    """What the job is to do."""

    run_policy: RunPolicy | None = Field(None, description="the job as a whole")
    jax_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1, max_length=16, description="Worker", json_schema_extra=role_rules(ROLES, "JAXJob")
    )


SHAPE = Shape(
    kind="JAXJob",
    plural="jaxjobs",
    framework="jax",
    specs_field="jaxReplicaSpecs",
    roles=ROLES,
    spec_model=JAXJobSpec,
    specs=lambda spec: spec.jax_replica_specs,
    complete=lambda spec, specs: {"Worker": "All"},
)
JOB_KIND = job_kind(SHAPE, "A JAX job of Kubeflow: workers, the first of which is the coordinator.")
