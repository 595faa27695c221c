"""The planner of PaddlePaddle EDL, one replica a step: easy to read and to check, slow in a big cluster. The policy
`fulfillment` gives the same answer, and a property test holds it to that. Pure; only `scale_dry_run` changes an
argument, as its original does.

Where it differs from the original, and why:

- a job is scaled down only for what it uses (the original scaled CPU jobs down for want of GPUs, and up again in the
  same round, for ever);
- GPUs count for each node, and are filled to the last one (a FIXME there);
- a planned replica takes room from its node, and a replica that goes gives it back.
"""

from __future__ import annotations

from collections.abc import Sequence

from tjworker.autoscale.jobs import ElasticJob, elastic, need_gpu, sorted_jobs
from tjworker.autoscale.resources import ClusterResource


def search_assignable_node(resource: ClusterResource, job: ElasticJob) -> str:
    """The first node with room for one more replica; '' when there is none."""
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
    """One step for a job of which `current_diff` replicas have been planned already: -1, 0 or +1; or, on the way up,
    from above its maximum straight down to that. `resource` is as it would be after it."""
    planned = job.parallelism + current_diff
    if scale_down:
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
    for index in range(planned - 1, planned + step - 1, -1):
        if index < len(job.placed) and job.placed[index] in resource.nodes.cpu_idle_milli:
            take(resource, job, job.placed[index], -1)
    return step


def _helps(resource: ClusterResource, job: ElasticJob, max_load_desired: float) -> bool:
    """Something that this job uses is requested beyond what there is."""
    return (
        bool(job.cpu_request_milli and resource.cpu_request_milli > cpu_reach(resource, max_load_desired))
        or bool(job.memory_request_mega and resource.memory_request_mega > resource.memory_total_mega)
        or bool(need_gpu(job) and resource.gpu_limit > resource.gpu_total)
    )


def _room(resource: ClusterResource, job: ElasticJob, planned: int, max_load_desired: float) -> str:
    """The node for one more replica; '' when it may not or cannot grow."""
    if planned >= job.highest:
        return ""
    if resource.memory_total_mega - resource.memory_request_mega < job.memory_request_mega:
        return ""
    if cpu_reach(resource, max_load_desired) - resource.cpu_request_milli < job.cpu_request_milli:
        return ""
    if need_gpu(job) and resource.gpu_total - resource.gpu_limit < job.gpu_limit:
        return ""
    return search_assignable_node(resource, job)


def account(resource: ClusterResource, job: ElasticJob, replicas: int) -> None:
    """Adds the requests of so many replicas to the sums of the cluster."""
    resource.cpu_request_milli += replicas * job.cpu_request_milli
    resource.memory_request_mega += replicas * job.memory_request_mega
    resource.gpu_request += replicas * job.gpu_limit
    resource.gpu_limit += replicas * job.gpu_limit


def take(resource: ClusterResource, job: ElasticJob, node: str, replicas: int) -> None:
    """Takes the requests of so many replicas from what the node has left."""
    nodes = resource.nodes
    taken = [(nodes.cpu_idle_milli, job.cpu_request_milli), (nodes.memory_free_mega, job.memory_request_mega)]
    if nodes.gpu_free:
        taken.append((nodes.gpu_free, job.gpu_limit))
    taken += [(nodes.others_free.setdefault(kind, {}), amount) for kind, amount in job.others]
    for free, amount in taken:
        if amount:
            free[node] = free.get(node, 0) - replicas * amount


def scale_one_by_one(jobs: Sequence[ElasticJob], resource: ClusterResource, max_load_desired: float) -> dict[str, int]:
    """How many replicas more or fewer each elastic job should have. Round after round, one step up for each job,
    the least fulfilled first, then one down, the most fulfilled first, until a round changes nothing. It terminates:
    the excess of requests over the cluster only falls, and without an excess there are only steps up, at most to the
    maxima."""
    left = resource.copy()
    ordered = sorted_jobs(jobs, elastic)
    diff = {job.name: 0 for job in ordered}
    changed = True
    while changed:
        changed = False
        for scale_down in (False, True):
            for job in reversed(ordered) if scale_down else ordered:
                step = scale_dry_run(left, job, diff[job.name], max_load_desired, scale_down)
                diff[job.name] += step
                changed = changed or step != 0
    return diff
