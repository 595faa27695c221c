"""JAX: the arguments of `jax.distributed.initialize` (https://docs.jax.dev/en/latest/multi_process.html). It reads
JAX_COORDINATOR_ADDRESS itself. The program passes the number of processes and its own number, from NUM_PROCESSES and
PROCESS_ID. These names, COORDINATOR_ADDRESS and COORDINATOR_PORT are those of training-operator's JAXJob. Process 0 is
the coordinator."""

from __future__ import annotations

from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.reconcile.frameworks.framework import Env, Framework, host, world_size


@dataclass(frozen=True, slots=True)
class Jax(Framework):
    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        head = self.head(job)
        address, port = host(job, head, 0), str(self.port(job, head))
        return {
            "PYTHONUNBUFFERED": "1",
            "JAX_COORDINATOR_ADDRESS": f"{address}:{port}",
            "COORDINATOR_ADDRESS": address,
            "COORDINATOR_PORT": port,
            "NUM_PROCESSES": str(world_size(job)),
            "PROCESS_ID": str(self.rank(job, role, index or 0)),
        }
