"""PaddleJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from tjworker.api.kinds.guests.parse import job_kind
from tjworker.api.kinds.guests.shape import Shape, Specs
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.kinds.kubeflow.family import KUBEFLOW
from tjworker.api.kinds.kubeflow.spec import ElasticPolicy, KubeflowSpec, metrics_ignored
from tjworker.api.model import EndPolicy, Ignored

ROLES = ("Master", "Worker")


class PaddleJobSpec(KubeflowSpec):
    """What the job is to do."""

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


def _ignored(spec: PaddleJobSpec) -> Iterator[Ignored]:
    yield from metrics_ignored(spec.elastic_policy)
    if spec.elastic_policy is not None and spec.elastic_policy.max_restarts is not None:
        yield Ignored("spec.elasticPolicy.maxRestarts")


SHAPE = Shape(
    family=KUBEFLOW,
    kind="PaddleJob",
    plural="paddlejobs",
    framework="paddle",
    container="paddle",
    specs_field="paddleReplicaSpecs",
    roles=ROLES,
    spec_model=PaddleJobSpec,
    specs=lambda spec: spec.paddle_replica_specs,
    complete=_complete,
    default_restart="OnFailure",
    elastic=lambda spec: spec.elastic_policy,
    ignored=_ignored,
)
JOB_KIND = job_kind(SHAPE, "A PaddlePaddle job of Kubeflow: workers, and parameter servers as masters.")
