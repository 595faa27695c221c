"""PaddleJob (kubeflow.org/v1). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from tjworker.api.ignored import Ignored
from tjworker.api.kinds.guests.kind import Restart, Specs
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.kinds.kubeflow.family import KubeflowKind
from tjworker.api.kinds.kubeflow.spec import ElasticPolicy, KubeflowSpec, metrics_ignored
from tjworker.api.model import EndPolicy

ROLES = ("Master", "Worker")


class PaddleJobSpec(KubeflowSpec):
    """Specification of the job."""

    elastic_policy: ElasticPolicy | None = Field(
        None,
        description="makes the workers elastic; you provide an etcd for their rendezvous, PADDLE_MASTER=etcd://...",
    )
    paddle_replica_specs: dict[str, ReplicaSpec] = Field(
        min_length=1,
        max_length=16,
        description="Worker for collective training; with Master, the masters are the parameter servers",
        json_schema_extra=role_rules(ROLES, "PaddleJob"),
    )


class PaddleJob(KubeflowKind[PaddleJobSpec]):
    kind = "PaddleJob"
    plural = "paddlejobs"
    description = "A PaddlePaddle job of Kubeflow: workers, and parameter servers as masters."
    spec_model = PaddleJobSpec
    roles_field = "paddleReplicaSpecs"
    roles = ROLES
    framework = "paddle"
    container = "paddle"

    def replica_specs(self, spec: PaddleJobSpec) -> Specs:
        return spec.paddle_replica_specs

    def complete_policies(self, spec: PaddleJobSpec, specs: Specs) -> Mapping[str, EndPolicy]:
        # With masters the workers do not count: the masters are parameter servers, and their success is the job's.
        return {"Master" if "Master" in specs else "Worker": "All"}

    def default_restart(self, spec: PaddleJobSpec, role: str) -> Restart:
        return "OnFailure"

    def elastic_policy(self, spec: PaddleJobSpec) -> ElasticPolicy | None:
        return spec.elastic_policy

    def ignored(self, spec: PaddleJobSpec) -> Iterator[Ignored]:
        yield from metrics_ignored(spec.elastic_policy)
        if spec.elastic_policy is not None and spec.elastic_policy.max_restarts is not None:
            yield Ignored("spec.elasticPolicy.maxRestarts")


JOB_KIND = PaddleJob()
