"""XDL: the task's name and index, for arguments of its programs (`--task_name $(TASK_NAME) --task_index
$(TASK_INDEX)`), and XDL_CONFIG with the cluster and the task in JSON. Programs find each other by XDL_CONFIG, or by the
ZooKeeper in ZK_ADDR, which the user sets. The names are KubeDL's (`genXDLConfigJSON`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.reconcile.frameworks.framework import MOST_OF_A_VALUE, Env, Framework, host


@dataclass(frozen=True, slots=True)
class XDL(Framework):
    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        # XDL has no master.
        return False

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        name = role.name.lower()
        task: Env = {"TASK_NAME": name, "TASK_INDEX": str(index or 0)}
        # Linux starts no program with a longer variable. A program that uses ZooKeeper can run without it.
        if sum(len(host(job, each, 0)) * each.replicas for each in job.roles) > MOST_OF_A_VALUE:
            return task
        config = json.dumps({"cluster": self._cluster(job), "task": {"type": name, "index": index or 0}})
        return task if len(config) > MOST_OF_A_VALUE else {**task, "XDL_CONFIG": config}

    def _cluster(self, job: TrainingJob) -> dict[str, list[str]]:
        cluster = {}
        for each in self.ordered(job):
            port = self.port_of(job, each)
            cluster[each.name.lower()] = [f"{host(job, each, i)}:{port(i)}" for i in range(each.replicas)]
        return cluster
