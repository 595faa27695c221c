"""PyTorch: what `torch.distributed` (init method env://) and torchrun read.

Static: MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE of one process a pod
(https://docs.pytorch.org/docs/stable/distributed.html, "Environment variable initialization"), and the same as PET_*
for a torchrun in the pod, which gives its processes their own. Every option of torchrun has a variable PET_<OPTION>
(torch/distributed/argparse_util.py).

Elastic, when a role is: torchrun's rendezvous (https://docs.pytorch.org/docs/stable/elastic/quickstart.html) tells
processes their rank, so nothing here depends on the number of replicas, and a pod that is made later has what the
others have. Replica 0 hosts the rendezvous (`is_host`, C10dRendezvousBackend): who guesses it by host names is wrong on
the host network. A change of members uses up a restart of torchrun's as a failure does, so there are many.
"""

from __future__ import annotations

from dataclasses import dataclass

from tjworker.api.model import Role, TrainingJob
from tjworker.reconcile.frameworks.framework import Env, Framework, host, least_world, most_world, world_size

MAX_RESTARTS = 100
"""Of torchrun in each pod, where the role has no restartLimit. Its own default is 0: the job would end with the first
pod that comes or goes."""


@dataclass(frozen=True, slots=True)
class PyTorch(Framework):
    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        head, rank = self.head(job), self.rank(job, role, index or 0)
        address, port = host(job, head, 0), str(self.port(job, head))
        common = {"PYTHONUNBUFFERED": "1"}
        if any(each.elastic for each in job.roles):
            limit = next(each for each in job.roles if each.elastic).restart_limit
            return common | {
                "PET_NNODES": f"{least_world(job)}:{most_world(job)}",
                "PET_RDZV_BACKEND": "c10d",
                "PET_RDZV_ENDPOINT": f"{address}:{port}",
                "PET_RDZV_ID": job.uid or job.name.name,
                "PET_RDZV_CONF": f"is_host={'true' if rank == 0 else 'false'}",
                "PET_MAX_RESTARTS": str(MAX_RESTARTS if limit is None else limit),
            }
        return common | {
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "RANK": str(rank),
            "WORLD_SIZE": str(world_size(job)),
            "LOCAL_RANK": "0",
            "PET_NNODES": str(world_size(job)),
            "PET_NODE_RANK": str(rank),
            "PET_MASTER_ADDR": address,
            "PET_MASTER_PORT": port,
        }
