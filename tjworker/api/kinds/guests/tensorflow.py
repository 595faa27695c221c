"""What Kubeflow's TFJob and KubeDL's have in common. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from tjworker.api.kinds.base import CamelModel
from tjworker.api.kinds.guests.shape import Family, Shape, Specs
from tjworker.api.kinds.guests.spec import ReplicaSpec, role_rules
from tjworker.api.model import EndPolicy

ROLES = ("PS", "Worker", "Chief", "Master", "Evaluator")
LONE = ("Chief", "Master")
R = TypeVar("R", bound=ReplicaSpec)


class TFJobFields(CamelModel, Generic[R]):
    """What the job is to do."""

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


def tfjob(family: Family, spec_model: type[TFJobFields[Any]], *, workers_beside_chief: bool = False) -> Shape:
    """`workers_beside_chief`: successPolicy AllWorkers counts in a job with a chief, too."""
    return Shape(
        family=family,
        kind="TFJob",
        plural="tfjobs",
        framework="tensorflow",
        container="tensorflow",
        specs_field="tfReplicaSpecs",
        roles=ROLES,
        spec_model=spec_model,
        specs=lambda spec: spec.tf_replica_specs,
        complete=lambda spec, specs: _complete(spec.success_policy, specs, workers_beside_chief),
        lone=LONE,
    )


def _complete(success_policy: str | None, specs: Specs, workers_beside_chief: bool) -> Mapping[str, EndPolicy]:
    """With the chief; without one with the first worker, or, as the policy says, the last."""
    chiefs = [name for name in LONE if name in specs]
    every = success_policy == "AllWorkers"
    if chiefs:
        return {chiefs[0]: "All", **({"Worker": "All"} if every and workers_beside_chief else {})}
    return {"Worker": "All" if every else "Rank0"}
