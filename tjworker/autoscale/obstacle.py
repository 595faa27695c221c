"""Why a role that could have more replicas has no more, in the words of `decide`'s own rules. Pure; decides nothing."""

from __future__ import annotations

from tjworker.autoscale.decide import REFUSED, Rules, moved
from tjworker.autoscale.dryrun import cpu_reach, search_assignable_node
from tjworker.autoscale.jobs import ElasticJob
from tjworker.autoscale.resources import ClusterResource
from tjworker.autoscale.roles import AutoRole


def obstacle(auto: AutoRole, resource: ClusterResource, now: float, rules: Rules) -> str:
    """A clause such as `one more asks for 1 CPU, ...`. `resource` is the cluster as decided so far (`as_decided`),
    `now` in Unix seconds. Not for a role that has its maximum."""
    if rules.policy == "off":
        return "the autoscaler is switched off (TJ_AUTOSCALE_POLICY)"
    if not resource.node_count:
        return "no node is ready and schedulable"
    return _of_the_job(auto, now, rules) or _of_the_cluster(auto.elastic, resource, rules)


def _of_the_job(auto: AutoRole, now: float, rules: Rules) -> str:
    job = auto.state.job
    if job.status.phase != "Running":
        return f"a job grows while it runs whole, and this one is {job.status.phase}"
    if auto.state.finished_replicas(auto.role):
        return "replicas of it have finished, and such a role does not grow any more"
    if auto.waiting:
        return f"{len(auto.waiting)} of its replicas wait for a node, and it does not grow meanwhile"
    if moved(auto, now, rules) < 0:
        record = next(r for r in job.status.scale_records if r.role == auto.role.name)
        if REFUSED in record.reason:
            return f"the scheduler refused a node at {record.time}; it is tried again after ten cool-downs"
        return f"it shrank at {record.time}, and rests for the cool-down of {rules.cooldown_seconds:g} s"
    return ""


def _of_the_cluster(job: ElasticJob, resource: ClusterResource, rules: Rules) -> str:
    cpu_left = cpu_reach(resource, rules.max_load_desired) - resource.cpu_request_milli
    if cpu_left < job.cpu_request_milli:
        full = f"{_cpu(max(0, cpu_left))} of {_cpu(resource.cpu_total_milli)}"
        return (
            f"one more asks for {_cpu(job.cpu_request_milli)} CPU, and {full} are left to it: the autoscaler fills "
            f"{rules.max_load_desired:.0%} of the CPUs"
        )
    memory_left = resource.memory_total_mega - resource.memory_request_mega
    if memory_left < job.memory_request_mega:
        return (
            f"one more asks for {_gb(job.memory_request_mega)} of memory, and {_gb(max(0, memory_left))} of"
            f" {_gb(resource.memory_total_mega)} are left"
        )
    gpu_left = resource.gpu_total - resource.gpu_limit
    if job.gpu_limit and gpu_left < job.gpu_limit:
        return f"one more asks for {job.gpu_limit} GPU, and {max(0, gpu_left)} of {resource.gpu_total} are left"
    if not search_assignable_node(resource, job):
        return f"no single node has room for one more ({_needs(job)}): {_emptiest(resource)}"
    return "there is room for one more, which the autoscaler's next run takes"


def _needs(job: ElasticJob) -> str:
    parts = [f"CPU {_cpu(job.cpu_request_milli)}", f"memory {_gb(job.memory_request_mega)}"]
    return ", ".join([*parts, f"GPU {job.gpu_limit}"] if job.gpu_limit else parts)


def _emptiest(resource: ClusterResource) -> str:
    nodes = resource.nodes
    name = max(nodes.cpu_idle_milli, key=lambda n: (nodes.gpu_free.get(n, 0), nodes.cpu_idle_milli[n]))
    left = [f"CPU {_cpu(nodes.cpu_idle_milli[name])}", f"memory {_gb(nodes.memory_free_mega.get(name, 0))}"]
    if resource.gpu_total:
        left.append(f"GPU {nodes.gpu_free.get(name, 0)}")
    return f"{name}, the emptiest, has {', '.join(left)} left"


def _cpu(milli: int) -> str:
    return f"{milli / 1000:g}"


def _gb(mega: int) -> str:
    return f"{mega / 1000:.3g} GB"
