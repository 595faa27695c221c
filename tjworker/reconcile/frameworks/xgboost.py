"""XGBoost: the tracker through which the workers of its collective find each other. The variables are the arguments
dmlc_tracker_uri, dmlc_tracker_port and dmlc_task_id of `xgboost.collective.init` in upper case
(https://xgboost.readthedocs.io/en/stable/python/python_api.html, xgboost.collective). XGBoost 1 and 2 read them
themselves. XGBoost 3 claims to, but does not, so the program must pass them. The master's program starts the
tracker (xgboost.tracker.RabitTracker) and trains as worker 0.

MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE, WORKER_ADDRS and WORKER_PORT are the names of training-operator's
XGBoostJob. The last two are for LightGBM, and are left out if the list is too long for Linux.
"""

from __future__ import annotations

from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.reconcile.frameworks.framework import MOST_OF_A_VALUE, Env, Framework, host, world_size


@dataclass(frozen=True, slots=True)
class XGBoost(Framework):
    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        head, size = self.head(job), str(world_size(job))
        address, port, rank = host(job, head, 0), str(self.port(job, head)), str(self.rank(job, role, index or 0))
        return {
            "PYTHONUNBUFFERED": "1",
            "DMLC_TRACKER_URI": address,
            "DMLC_TRACKER_PORT": port,
            "DMLC_TASK_ID": rank,
            "DMLC_NUM_WORKER": size,
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "RANK": rank,
            "WORLD_SIZE": size,
            **self._lightgbm(job, head),
        }

    def _lightgbm(self, job: TrainingJob, head: Role) -> Env:
        # Do not even build, for each pod, a list that is too long for one variable.
        least = sum(len(host(job, each, 0) + ",") * each.replicas for each in job.roles)
        if least - len(host(job, head, 0) + ",") > MOST_OF_A_VALUE + 1:
            return {}
        others = [
            (each, i) for each in self.ordered(job) for i in range(each.replicas) if (each.name, i) != (head.name, 0)
        ]
        addresses = ",".join(host(job, each, i) for each, i in others)
        if not others or len(addresses) > MOST_OF_A_VALUE:
            return {}
        return {"WORKER_ADDRS": addresses, "WORKER_PORT": str(self.port(job, *others[0]))}
