"""PaddleJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.kubeflow.parse import Shape, Specs, job_kind
from tjworker.api.kinds.kubeflow.spec import ElasticPolicy, ReplicaSpec, RunPolicy, role_rules
from tjworker.api.model import EndPolicy

ROLES = ("Master", "Worker")


class PaddleJobSpec(CamelModel):
    """What the job is to do."""

    run_policy: RunPolicy | None = Field(None, description="the job as a whole")
    elastic_policy: ElasticPolicy | None = Field(
        None,
        description="makes the workers elastic; their rendezvous is then an etcd of yours, PADDLE_MASTER=etcd://...",
    )
    paddle_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Worker alone for collective training; with Master, which are then the parameter servers",
        json_schema_extra=role_rules(ROLES, "PaddleJob"),
    )


def _complete(spec: PaddleJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
    return {"Master" if "Master" in specs else "Worker": "All"}


def _ignored(spec: PaddleJobSpec) -> Iterator[str]:
    if spec.elastic_policy is not None and spec.elastic_policy.max_restarts is not None:
        yield "spec.elasticPolicy.maxRestarts"


SHAPE = Shape(
    kind="PaddleJob",
    plural="paddlejobs",
    framework="paddle",
    specs_field="paddleReplicaSpecs",
    roles=ROLES,
    spec_model=PaddleJobSpec,
    specs=lambda spec: spec.paddle_replica_specs,
    complete=_complete,
    default_restart="OnFailure",
    ignored=_ignored,
)
JOB_KIND = job_kind(SHAPE, "A PaddlePaddle job of Kubeflow: workers, and parameter servers as masters.")
