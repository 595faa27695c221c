"""PyTorch: the variables of `torch.distributed` (init method env://) and torchrun.

Static jobs get MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE for one process per pod
(https://docs.pytorch.org/docs/stable/distributed.html, "Environment variable initialization"). They also get them as
PET_* for a torchrun in the pod, which gives its processes their own.

Jobs with an elastic role, and kinds that ask for a rendezvous (`TrainingJob.rendezvous`), get the variables of
torchrun's rendezvous (https://docs.pytorch.org/docs/stable/elastic/quickstart.html), which assigns the ranks. These do
not depend on the number of replicas, so a pod that is created later has the same as the others. The first node hosts
the rendezvous (`is_host`, C10dRendezvousBackend). torchrun would guess the host by its name, which is wrong on the host
network.

An elastic job of another operator's kind with a master gets the static variables, too. training-operator and KubeDL
set them whenever there is a master (`setPodEnv`, `SetClusterSpec`), for programs that torchrun does not start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.api.torchrun import TorchOptions
from tjworker.reconcile.frameworks.framework import Env, Framework, host, least_world, most_world, world_size

MAX_RESTARTS = 100
"""Restarts of torchrun in each pod, for a role without restartLimit. A change of members uses one, as a failure does.
torchrun's default is 0, with which the first new or lost pod would end the job."""


@dataclass(frozen=True, slots=True)
class PyTorch(Framework):
    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        head, rank = self.head(job), self.rank(job, role, index or 0)
        address, port = host(job, head, 0), str(self.port(job, head))
        common = {"PYTHONUNBUFFERED": "1"}
        static: Env = {
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size(job)),
            "LOCAL_RANK": "0",
            **TorchOptions(
                nnodes=str(world_size(job)), node_rank=str(rank), master_addr=address, master_port=port
            ).variables(),
        }
        nodes = self._nodes(job)
        if not nodes:
            return {**common, **static}
        has_master = job.is_guest and any(each.name.lower() == "master" for each in job.roles)
        return {**common, **(static if has_master else {}), **self._rendezvous(job, nodes, role, index or 0)}

    def settings(self, job: TrainingJob) -> Env:
        return job.torch.variables()

    def _nodes(self, job: TrainingJob) -> Sequence[Role]:
        """Roles that take part in the rendezvous; empty if the job has no rendezvous."""
        if job.rendezvous:
            return [each for each in self.ordered(job) if each.name in job.rendezvous]
        return self.ordered(job) if any(each.elastic for each in job.roles) else ()

    def _rendezvous(self, job: TrainingJob, nodes: Sequence[Role], role: Role, index: int) -> Env:
        first = next((each for each in nodes if each.replicas), nodes[0])
        is_host = role.name == first.name and index == 0
        limit = next((each.restart_limit for each in nodes if each.elastic), None)
        return TorchOptions(
            nnodes=f"{least_world(nodes)}:{most_world(nodes)}",
            max_restarts=str(MAX_RESTARTS if limit is None else limit),
            rdzv_backend="c10d",
            rdzv_endpoint=f"{host(job, first, 0)}:{self.port(job, first)}",
            rdzv_id=job.uid or job.name.name,
            rdzv_conf=f"is_host={'true' if is_host else 'false'}",
        ).variables()
