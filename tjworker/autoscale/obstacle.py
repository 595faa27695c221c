"""Explains in words why there is no room for one more replica of a role. Pure; decides nothing."""

from __future__ import annotations

from tjworker.autoscale.dryrun import Shortage, find_shortage, search_assignable_node
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.problem import ElasticRole, Problem
from tjworker.autoscale.resources import ClusterResource


def why_no_room(problem: Problem, role: ElasticRole) -> str:
    """A clause such as `one more asks for 1 CPU, ...`. Meaningless for a role that has its maximum."""
    job, resource = role.elastic, problem.resource
    if shortage := find_shortage(resource, job, problem.max_load_desired):
        return _describe_shortage(shortage, problem, job)
    if not search_assignable_node(resource, job):
        emptiest = _describe_emptiest(resource, _allowed_nodes(job, resource))
        return f"no single node has room for one more ({_describe_needs(job)}): {emptiest}"
    return "there is room for one more, which the autoscaler's next run takes"


def _describe_shortage(shortage: Shortage, problem: Problem, job: ElasticJob) -> str:
    resource, left = problem.resource, max(0, shortage.left)
    match shortage.resource:
        case "memory":
            asked, total = _gb(job.memory_request_mega), _gb(resource.memory_total_mega)
            return f"one more asks for {asked} of memory, and {_gb(left)} of {total} are left"
        case "cpu":
            asked, total = _cpu(job.cpu_request_milli), _cpu(resource.cpu_total_milli)
            return (
                f"one more asks for {asked} CPU, and {_cpu(left)} of {total} are left to it: the autoscaler fills "
                f"{problem.max_load_desired:.0%} of the CPUs"
            )
        case "gpu":
            return f"one more asks for {job.gpu_limit} GPU, and {left} of {resource.gpu_total} are left"


def _allowed_nodes(job: ElasticJob, resource: ClusterResource) -> list[str]:
    """The nodes that its constraints allow, and that have each further resource it needs."""
    # `outlook` represents constraints as a resource that only the allowed nodes have.
    free = resource.nodes.others_free
    return [
        n
        for n in resource.nodes.cpu_idle_milli
        if all(n in free.get(kind, {}) for kind, amount in job.others if amount)
    ]


def _describe_needs(job: ElasticJob) -> str:
    parts = [f"CPU {_cpu(job.cpu_request_milli)}", f"memory {_gb(job.memory_request_mega)}"]
    return ", ".join([*parts, f"GPU {job.gpu_limit}"] if job.gpu_limit else parts)


def _describe_emptiest(resource: ClusterResource, among: list[str]) -> str:
    nodes = resource.nodes
    if not among:
        return "its nodeSelector, affinity and tolerations leave it no usable node"
    # By GPUs first: in a cluster that has any, they are what usually lacks.
    name = max(among, key=lambda n: (nodes.gpu_free.get(n, 0), nodes.cpu_idle_milli[n]))
    left = [f"CPU {_cpu(nodes.cpu_idle_milli[name])}", f"memory {_gb(nodes.memory_free_mega.get(name, 0))}"]
    if resource.gpu_total:
        left.append(f"GPU {nodes.gpu_free.get(name, 0)}")
    return f"{name}, the emptiest, has {', '.join(left)} left"


def _cpu(milli: int) -> str:
    return f"{milli / 1000:g}"


def _gb(mega: int) -> str:
    return f"{mega / 1000:.3g} GB"
