"""One step of the planner of PaddlePaddle EDL, easy to read and to check. The policy `fulfillment` plans as a loop of
such steps would; a property test compares the two. Pure, except that `scale_dry_run` changes `resource`, as the
original does, and so do its helpers `account` and `take`.

It differs from the original in three ways:

- A job is scaled down only if it uses a resource that is short. The original scaled CPU jobs down when GPUs were short,
  and up again in the same round, for ever.
- GPUs count per node, and the last GPU may be used (a FIXME in the original).
- A planned replica takes room from its node, and a removed replica gives it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tjworker.autoscale.jobs import ElasticJob, need_gpu
from tjworker.autoscale.resources import ClusterResource


@dataclass(frozen=True, slots=True)
class Shortage:
    resource: Literal["memory", "cpu", "gpu"]
    left: int
    """MB, milli-CPUs or GPUs; below 0 if pods request more than there is."""


def search_assignable_node(resource: ClusterResource, job: ElasticJob) -> str:
    """The first node with room for one more replica; '' if there is none."""
    nodes = resource.nodes
    for name, idle in nodes.cpu_idle_milli.items():
        if job.cpu_request_milli and job.cpu_request_milli > idle:
            continue
        if job.memory_request_mega and job.memory_request_mega > nodes.memory_free_mega.get(name, 0):
            continue
        if need_gpu(job) and nodes.gpu_free and job.gpu_limit > nodes.gpu_free.get(name, 0):
            continue
        if all(amount <= nodes.others_free.get(kind, {}).get(name, 0) for kind, amount in job.others if amount):
            return name
    return ""


def cpu_reach(resource: ClusterResource, max_load_desired: float) -> int:
    """Milli-CPUs up to which requests may go."""
    return int(resource.cpu_total_milli * max_load_desired)


def scale_dry_run(
    resource: ClusterResource, job: ElasticJob, current_diff: int, max_load_desired: float, scale_down: bool
) -> int:
    """One step for a job: -1, 0 or +1 replicas. If the job is above its maximum, the step up goes down to the maximum.
    `current_diff`: the replicas planned so far minus the present ones. Changes `resource` to what it is after the step.
    """
    planned = job.parallelism + current_diff
    if scale_down:
        # A maximum that the user has lowered holds at once, whether room is needed or not.
        may = planned > job.max_instance or (planned > job.lowest and _helps(resource, job, max_load_desired))
        step, node = -1 if may else 0, ""
    elif planned > job.max_instance:
        step, node = job.max_instance - planned, ""
    else:
        node = _room(resource, job, planned, max_load_desired)
        step = 1 if node else 0
    account(resource, job, step)
    if node:
        take(resource, job, node, 1)
    # Replicas that go, the last one first, give back the room on their nodes.
    for index in range(planned - 1, planned + step - 1, -1):
        if index < len(job.placed) and job.placed[index] in resource.nodes.cpu_idle_milli:
            take(resource, job, job.placed[index], -1)
    return step


def _helps(resource: ClusterResource, job: ElasticJob, max_load_desired: float) -> bool:
    """True if pods request more than the cluster has, of a resource that this job uses."""
    return (
        bool(job.cpu_request_milli and resource.cpu_request_milli > cpu_reach(resource, max_load_desired))
        or bool(job.memory_request_mega and resource.memory_request_mega > resource.memory_total_mega)
        or bool(need_gpu(job) and resource.gpu_limit > resource.gpu_total)
    )


def find_shortage(resource: ClusterResource, job: ElasticJob, max_load_desired: float) -> Shortage | None:
    """The first resource of which the whole cluster has too little left for one more replica; None if there is none,
    but maybe no single node has the room."""
    memory_left = resource.memory_total_mega - resource.memory_request_mega
    if memory_left < job.memory_request_mega:
        return Shortage("memory", memory_left)
    cpu_left = cpu_reach(resource, max_load_desired) - resource.cpu_request_milli
    if cpu_left < job.cpu_request_milli:
        return Shortage("cpu", cpu_left)
    gpu_left = resource.gpu_total - resource.gpu_limit
    if need_gpu(job) and gpu_left < job.gpu_limit:
        return Shortage("gpu", gpu_left)
    return None


def _room(resource: ClusterResource, job: ElasticJob, planned: int, max_load_desired: float) -> str:
    """The node for one more replica; '' if the job may not grow or there is no room."""
    if planned >= job.highest or find_shortage(resource, job, max_load_desired):
        return ""
    return search_assignable_node(resource, job)


def account(resource: ClusterResource, job: ElasticJob, replicas: int) -> None:
    """Add the requests of that many replicas to the sums of the cluster."""
    resource.cpu_request_milli += replicas * job.cpu_request_milli
    resource.memory_request_mega += replicas * job.memory_request_mega
    resource.gpu_request += replicas * job.gpu_limit
    resource.gpu_limit += replicas * job.gpu_limit


def take(resource: ClusterResource, job: ElasticJob, node: str, replicas: int) -> None:
    """Subtract the requests of that many replicas from what the node has left."""
    nodes = resource.nodes
    taken = [(nodes.cpu_idle_milli, job.cpu_request_milli), (nodes.memory_free_mega, job.memory_request_mega)]
    if nodes.gpu_free:
        taken.append((nodes.gpu_free, job.gpu_limit))
    taken += [(nodes.others_free.setdefault(kind, {}), amount) for kind, amount in job.others]
    for free, amount in taken:
        if amount:
            free[node] = free.get(node, 0) - replicas * amount
