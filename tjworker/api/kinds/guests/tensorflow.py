"""The common part of Kubeflow's and KubeDL's TFJob. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.kind import GuestKind, Specs
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.model import EndPolicy

ROLES = ("PS", "Worker", "Chief", "Master", "Evaluator")
# TensorFlow's older name of the chief is master; both operators accept either.
LONE = ("Chief", "Master")
R = TypeVar("R", bound=ReplicaSpec)


class TFJobFields(CamelModel, Generic[R]):
    """Specification of the job."""

    success_policy: Literal["", "AllWorkers"] | None = Field(
        None,
        description="of a job without Chief and Master: empty, it succeeds with worker 0; `AllWorkers`, with all"
        " workers",
    )
    tf_replica_specs: dict[str, R] = Field(
        min_length=1,
        max_length=16,
        description="PS, Worker, Chief (or Master) and Evaluator",
        json_schema_extra=role_rules(ROLES, "TFJob", lone=LONE),
    )


T = TypeVar("T", bound=TFJobFields[Any])


class TFJobKind(GuestKind[T]):
    kind = "TFJob"
    plural = "tfjobs"
    roles_field = "tfReplicaSpecs"
    roles = ROLES
    lone = LONE
    framework = "tensorflow"
    container = "tensorflow"
    workers_beside_chief: bool = False
    """True if successPolicy AllWorkers also requires the workers of a job with a chief."""

    def replica_specs(self, spec: T) -> Specs:
        return spec.tf_replica_specs

    def complete_policies(self, spec: T, specs: Specs) -> Mapping[str, EndPolicy]:
        """The chief; in a job without a chief, the first worker or, with AllWorkers, all workers."""
        chiefs = [name for name in LONE if name in specs]
        every = spec.success_policy == "AllWorkers"
        if chiefs:
            return {chiefs[0]: "All", **({"Worker": "All"} if every and self.workers_beside_chief else {})}
        return {"Worker": "All" if every else "Rank0"}
