"""Problems for autoscaling policies: drawn ones, and the effect of a plan on a problem."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from tjworker.autoscale import ClusterResource, ElasticJob, Nodes, elastic, scale_dry_run, sorted_jobs
from tjworker.autoscale.problem import ElasticRole, Owner, Problem, RoleId, ScalePlan
from tjworker.base import JobKey

NOW = 1767229200.0
CPU = st.sampled_from([0, 100, 250, 500, 700, 1000, 1100, 3000])
MEMORY = st.sampled_from([0, 10, 90, 100, 400])
OTHERS = st.sampled_from([(), (("pods", 1),), (("amd.com/gpu", 1), ("pods", 1)), (("place 0", 1),)])
KINDS = ("pods", "amd.com/gpu", "place 0")


def pose_jobs(jobs: Sequence[ElasticJob], resource: ClusterResource, load: float = 1.0) -> Problem:
    """Each job has one role."""
    roles = [ElasticRole(RoleId(JobKey(job.name), "trainer"), Owner("default"), job) for job in jobs]
    return Problem(NOW, roles, resource, load)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Replicas are on nodes that have room for them, or wait; other pods take some of the rest, or wait as well."""
    names = [f"node-{i}" for i in range(draw(st.integers(1, 4)))]
    cpu = {name: draw(st.integers(0, 8000)) for name in names}
    memory = {name: draw(st.integers(0, 2000)) for name in names}
    gpus = {name: draw(st.integers(0, 4)) for name in names}
    others = {kind: {name: draw(st.sampled_from([0, 3, 99])) for name in names} for kind in KINDS}
    asked = ClusterResource(len(names), nodes=Nodes(cpu, memory, gpus, others))
    jobs: list[ElasticJob] = [draw(_jobs(f"job-{i}", names)) for i in range(draw(st.integers(0, 6)))]
    for job in jobs:
        asked.cpu_request_milli += job.parallelism * job.cpu_request_milli
        asked.memory_request_mega += job.parallelism * job.memory_request_mega
        asked.gpu_limit += job.parallelism * job.gpu_limit
    asked.gpu_request = asked.gpu_limit
    held = [(job, node) for job in jobs for node in job.placed if node]
    asked.cpu_total_milli = sum(cpu.values()) + sum(job.cpu_request_milli for job, _ in held)
    asked.memory_total_mega = sum(memory.values()) + sum(job.memory_request_mega for job, _ in held)
    asked.gpu_total = sum(gpus.values()) + sum(job.gpu_limit for job, _ in held)
    asked.cpu_request_milli += draw(st.sampled_from([0, 0, 1500, 9000]))
    asked.memory_request_mega += draw(st.sampled_from([0, 0, 700]))
    asked.gpu_limit += draw(st.sampled_from([0, 0, 3]))
    return pose_jobs(jobs, asked, draw(st.sampled_from([0.5, 0.97, 1.0])))


@st.composite
def _jobs(draw: st.DrawFn, name: str, nodes: Sequence[str]) -> ElasticJob:
    least = draw(st.integers(0, 4))
    most = least + draw(st.integers(1, 10))
    now = draw(st.integers(least, most + 1))
    placed = tuple(draw(st.sampled_from([*nodes, ""])) for _ in range(now))
    bounds = {"ceiling": draw(st.sampled_from([None, None, now])), "floor": draw(st.sampled_from([None, None, now]))}
    return ElasticJob(
        name,
        least,
        most,
        now,
        draw(CPU),
        draw(MEMORY),
        draw(st.sampled_from([0, 0, 1, 2])),
        draw(OTHERS),
        placed,
        **bounds,
    )


def carry_out(problem: Problem, plan: ScalePlan) -> Problem:
    """The problem of the next run, when the plan's replicas have come and gone and nothing else has happened."""
    resource = problem.resource.copy()
    roles = []
    for role in problem.roles:
        job = role.elastic
        to = plan.targets.get(role.id, job.parallelism)
        kept = (*job.placed, *[""] * job.parallelism)[: min(to, job.parallelism)]
        added = tuple(plan.places.get(role.id, ()))
        for node in (*job.placed[to:], *added):
            _take(resource, job, node, 1 if to > job.parallelism else -1)
        step = to - job.parallelism
        resource.cpu_request_milli += step * job.cpu_request_milli
        resource.memory_request_mega += step * job.memory_request_mega
        resource.gpu_limit += step * job.gpu_limit
        roles.append(replace(role, elastic=replace(job, parallelism=to, placed=(*kept, *added))))
    return replace(problem, roles=roles, resource=resource)


def _take(resource: ClusterResource, job: ElasticJob, node: str, replicas: int) -> None:
    nodes = resource.nodes
    if node not in nodes.cpu_idle_milli:
        return
    nodes.cpu_idle_milli[node] -= replicas * job.cpu_request_milli
    nodes.memory_free_mega[node] -= replicas * job.memory_request_mega
    nodes.gpu_free[node] -= replicas * job.gpu_limit
    for kind, amount in job.others:
        nodes.others_free[kind][node] -= replicas * amount


def scale_one_by_one(jobs: Sequence[ElasticJob], resource: ClusterResource, max_load_desired: float) -> dict[str, int]:
    """Name of each elastic job -> how many replicas more (or fewer, below 0) it should have. In each round every job
    makes one step up, the least fulfilled first, then one step down, the most fulfilled first. Ends with the first
    round that changes nothing."""
    # It terminates: the excess of requests over the cluster only falls. Without an excess there are only steps up, at
    # most to the maxima.
    left = resource.copy()
    # Sorted once: a dry run leaves the numbers by which it sorts.
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
