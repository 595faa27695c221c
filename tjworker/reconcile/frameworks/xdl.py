"""XDL: the task's name and index, which its programs take as arguments (`--task_name $(TASK_NAME) --task_index
$(TASK_INDEX)`), and XDL_CONFIG, the cluster and the task in JSON. Programs find each other there, or in the ZooKeeper
of ZK_ADDR, which the user gives. The names are KubeDL's (`genXDLConfigJSON`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.reconcile.frameworks.framework import MOST_OF_A_VALUE, Env, Framework, host


@dataclass(frozen=True, slots=True)
class XDL(Framework):
    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        """It has none."""
        return False

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        name = role.name.lower()
        task: Env = {"TASK_NAME": name, "TASK_INDEX": str(index or 0)}
        # Linux would start no program with a longer one. A program that asks ZooKeeper does without: the job may run.
        if sum(len(host(job, each, 0)) * each.replicas for each in job.roles) > MOST_OF_A_VALUE:
            return task
        config = json.dumps({"cluster": self._cluster(job), "task": {"type": name, "index": index or 0}})
        return task if len(config) > MOST_OF_A_VALUE else {**task, "XDL_CONFIG": config}

    def _cluster(self, job: TrainingJob) -> dict[str, list[str]]:
        found = {}
        for each in self.ordered(job):
            port = self.port_of(job, each)
            found[each.name.lower()] = [f"{host(job, each, i)}:{port(i)}" for i in range(each.replicas)]
        return found
