"""Any framework: replicas find each other by the operator's own variables (`workloads.environment`); a role named
`master` has the master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import Port


@dataclass(frozen=True, slots=True)
class AnyFramework:
    default_container: str = ""
    default_port: Port | None = None

    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        return role.name.lower() == "master"

    def order(self, job: TrainingJob) -> Sequence[str]:
        return [role.name for role in job.roles]

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Mapping[str, str]:
        return {}
