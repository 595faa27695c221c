"""JAXJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Shape
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.kinds.kubeflow.family import KUBEFLOW
from tjworker.api.kinds.kubeflow.spec import KubeflowSpec

ROLES = ("Worker",)


class JAXJobSpec(KubeflowSpec):
    """What the job is to do."""

    jax_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1, max_length=16, description="Worker", json_schema_extra=role_rules(ROLES, "JAXJob")
    )


SHAPE = Shape(
    family=KUBEFLOW,
    kind="JAXJob",
    plural="jaxjobs",
    framework="jax",
    container="jax",
    specs_field="jaxReplicaSpecs",
    roles=ROLES,
    spec_model=JAXJobSpec,
    specs=lambda spec: spec.jax_replica_specs,
    complete=lambda spec, specs: {"Worker": "All"},
)
JOB_KIND = job_kind(SHAPE, "A JAX job of Kubeflow: workers, the first of which is the coordinator.")
