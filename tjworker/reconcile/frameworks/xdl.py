"""XDL: the task's name and index, which its programs take as arguments (`--task_name $(TASK_NAME) --task_index
$(TASK_INDEX)`); they find each other in the ZooKeeper of ZK_ADDR, which the user gives. The names are KubeDL's.
"""

from __future__ import annotations

from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.reconcile.frameworks.framework import Env, Framework


@dataclass(frozen=True, slots=True)
class XDL(Framework):
    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        """It has none."""
        return False

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        return {"TASK_NAME": role.name.lower(), "TASK_INDEX": str(index or 0)}
