"""Any framework: replicas find each other by the operator's own variables (`workloads.environment`). The pods of a role
named `master` are masters."""

from __future__ import annotations

from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.reconcile.frameworks.framework import Framework


@dataclass(frozen=True, slots=True)
class AnyFramework(Framework):
    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        return role.name.lower() == "master"
