"""PaddlePaddle: the variables of `python -m paddle.distributed.launch`
(https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/launch_en.html;
paddle/distributed/launch/context/args_envs.py has the variable of each option).

Replica 0 hosts the rendezvous. Its launcher recognizes the host only by IP (HTTPMaster), so its PADDLE_MASTER has the
pod's own IP. PADDLE_TRAINER_ENDPOINTS is left to the launcher: set from outside, it would replace PADDLE_MASTER. With
parameter servers (roles ps, pserver or master, as in PaddleJob) each pod has one server or one trainer. An elastic role
needs an etcd for its rendezvous: PADDLE_MASTER=etcd://... in the template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tjworker.api.model import Role, TrainingJob
from tjworker.reconcile.frameworks.framework import Env, Expanded, Framework, host, least_world, most_world, world_size

SERVERS = ("master", "ps", "pserver")


@dataclass(frozen=True, slots=True)
class Paddle(Framework):
    def environment(self, job: TrainingJob, role: Role, index: int | None) -> Env:
        head, rank = self.head(job), self.rank(job, role, index or 0)
        elastic = [each for each in job.roles if each.elastic]
        made: dict[str, str | Mapping[str, Any]] = {
            "PYTHONUNBUFFERED": "1",
            # training-operator's name (`setPodEnv`). POD_IP cannot be used instead, because the template may set it.
            "POD_IP_DUMMY": {"fieldRef": {"fieldPath": "status.podIP"}},
            "POD_IP": Expanded("$(POD_IP_DUMMY)"),
            "PADDLE_MASTER": Expanded(
                f"{'$(POD_IP_DUMMY)' if rank == 0 else host(job, head, 0)}:{self.port(job, head)}"
            ),
            "PADDLE_JOB_ID": job.name.name,
        }
        if elastic:
            made["PADDLE_NNODES"] = f"{least_world(job.roles)}:{most_world(job.roles)}"
        else:
            made |= {"PADDLE_NNODES": str(world_size(job)), "PADDLE_RANK": str(rank)}
        servers = [each.name for each in job.roles if each.name.lower() in SERVERS]
        if servers:
            made["PADDLE_SERVER_NUM" if role.name in servers else "PADDLE_TRAINER_NUM"] = "1"
        return made
