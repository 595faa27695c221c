"""Mars: MARS_TASK_DETAIL with the cluster and the process' place in it, and the variables by which workers know their
resources (`mars.deploy.kubernetes.core`, K8SServiceMixin). The names are KubeDL's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tjworker.api.labels import JOB_NAME
from tjworker.api.model import Role, TrainingJob
from tjworker.api.naming import containers
from tjworker.api.quantity import asked_whole
from tjworker.reconcile.frameworks.framework import Env, Framework, host

WORKER = "worker"
_FROM_THE_POD = {
    "MARS_CONTAINER_IP": "status.podIP",
    "MARS_K8S_POD_NAME": "metadata.name",
    "MARS_K8S_POD_NAMESPACE": "metadata.namespace",
}


@dataclass(frozen=True, slots=True)
class Mars(Framework):
    def is_master(self, job: TrainingJob, role: Role, index: int | None) -> bool:
        # Mars has no master.
        return False

    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        main = next(iter(containers(role.template)), {})
        cpus, size_bytes = asked_whole(main, "cpu"), asked_whole(main, "memory")
        task: dict[str, object] = {"type": role.name.lower(), "index": index or 0}
        if role.name.lower() == WORKER:
            task["resources"] = {"cpu_procs": cpus, "phy_mem": size_bytes >> 20}
        detail = {"cluster": {each.name.lower(): self._ends(job, each) for each in self.ordered(job)}, "task": task}
        return {
            "MARS_CPU_TOTAL": str(cpus),
            "MARS_MEMORY_TOTAL": str(size_bytes),
            "MARS_CPU_USE_PROCESS_STAT": "1",
            "MARS_MEM_USE_CGROUP_STAT": "1",
            "MARS_BIND_PORT": str(self.port(job, role, index or 0)),
            "MARS_K8S_GROUP_LABELS": JOB_NAME,
            **{name: {"fieldRef": {"fieldPath": path}} for name, path in _FROM_THE_POD.items()},
            "MARS_TASK_DETAIL": json.dumps(detail),
        }

    def _ends(self, job: TrainingJob, role: Role) -> list[str]:
        domain, port = f".{job.name.namespace}.svc:", self.port_of(job, role)
        return [f"{host(job, role, i)}{domain}{port(i)}" for i in range(role.replicas)]
