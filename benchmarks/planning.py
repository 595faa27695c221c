"""`python -m benchmarks.planning`: how long the autoscaler takes to plan: `fulfillment` and the naive loop of the
seeds, then every policy on GPU clusters.

CPU time of one process, the best of three. Clusters are made by a fixed seed.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tests.support.autoscaling import scale_one_by_one
from tjworker.api.progress import Progress, SpeedSample
from tjworker.autoscale import POLICIES, ClusterResource, ElasticJob, Nodes, scale_all_jobs_dry_run
from tjworker.autoscale.problem import ElasticRole, Owner, Problem, RoleId
from tjworker.base import JobKey

CORES, MEMORY_MEGA, PODS = 64, 256_000, 110
LOAD = 0.97
Planner = Callable[[Sequence[ElasticJob], ClusterResource, float], dict[str, int]]


@dataclass(frozen=True, slots=True)
class Size:
    jobs: int
    nodes: int
    shapes: str
    """`few` sizes of replicas, as people choose them, or `all` different."""
    start: str = "min"
    """Sizes of the jobs: their `min`, or their `max` even without room."""
    naive: bool = False
    """Time the naive loop, too: seconds to minutes where there are many nodes."""


SIZES = (
    Size(100, 64, "few", naive=True),
    Size(1_000, 500, "few", naive=True),
    Size(10_000, 5_000, "few"),
    Size(10_000, 5_000, "all"),
    Size(10_000, 5_000, "few", start="max"),
)


def cluster(size: Size, seed: int = 1) -> tuple[list[ElasticJob], ClusterResource]:
    rng = random.Random(seed)
    names = [f"node-{i}" for i in range(size.nodes)]
    nodes = Nodes(
        {n: CORES * 1000 - rng.randrange(0, 8000, 100) for n in names},
        dict.fromkeys(names, MEMORY_MEGA),
        {n: rng.choice((0, 0, 8)) for n in names},
        {"pods": dict.fromkeys(names, PODS)},
    )
    jobs = []
    for i in range(size.jobs):
        cpu = rng.choice((500, 1000, 2000, 4000)) if size.shapes == "few" else rng.randrange(100, 4000)
        memory = rng.choice((500, 1000, 4000)) if size.shapes == "few" else rng.randrange(100, 8000)
        least = rng.randint(1, 3)
        most, gpus = least + rng.randint(1, 60), rng.choice((0, 0, 0, 1))
        job = ElasticJob(f"job-{i}", least, most, least, cpu, memory, gpus, (("pods", 1),))
        jobs.append(job if size.start == "min" else replace(job, parallelism=job.max_instance))
    return jobs, ClusterResource(
        size.nodes,
        cpu_total_milli=size.nodes * CORES * 1000,
        memory_total_mega=size.nodes * MEMORY_MEGA,
        gpu_total=sum(nodes.gpu_free.values()),
        cpu_request_milli=sum(j.cpu_request_milli * j.parallelism for j in jobs),
        memory_request_mega=sum(j.memory_request_mega * j.parallelism for j in jobs),
        gpu_limit=sum(j.gpu_limit * j.parallelism for j in jobs),
        nodes=nodes,
    )


def gpu_cluster(jobs: int, nodes: int, seed: int = 1) -> Problem:
    """Nodes of 4 GPUs; jobs of 1 to 4 replicas now, of which four in five have reported speeds at up to three sizes."""
    rng = random.Random(seed)
    names = [f"node-{i:04}" for i in range(nodes)]
    free = dict.fromkeys(names, 4)
    slots = [name for name in names for _ in range(4)]
    rng.shuffle(slots)
    roles = []
    for i in range(jobs):
        placed = tuple(slots.pop() for _ in range(min(len(slots), rng.choice((1, 1, 2, 2, 4)))))
        for name in placed:
            free[name] -= 1
        now = len(placed)
        most = rng.choice((4, 8, 16, 32, 64))
        job = ElasticJob(f"job-{i:04}", min(1, now), most, now, 1000, 4000, 1, (("pods", 1),), placed)
        sizes = sorted({1, rng.choice((1, 2, 4)), max(1, now)})
        serial = rng.uniform(0.01, 0.5)  # the part of a step that more replicas do not shorten
        samples = [SpeedSample(n, -(-n // 4), 100 * n / (1 + serial * (n - 1)), 5, 0.0) for n in sizes]
        reports = Progress(50.0, rng.uniform(60, 20_000), 0.0, tuple(samples), 30.0) if rng.random() < 0.8 else None
        owner = Owner("default", submitted_at=-rng.uniform(0, 20_000))
        id_ = RoleId(JobKey(job.name), "trainer")
        roles.append(ElasticRole(id_, owner, job, service=rng.uniform(0, 50_000), progress=reports))
    used = {name: 4 - left for name, left in free.items()}
    asked = sum(used.values())
    resource = ClusterResource(
        nodes,
        gpu_request=asked,
        gpu_limit=asked,
        gpu_total=4 * nodes,
        cpu_request_milli=1000 * asked,
        cpu_total_milli=64_000 * nodes,
        memory_request_mega=4000 * asked,
        memory_total_mega=MEMORY_MEGA * nodes,
        nodes=Nodes(
            {name: 64_000 - 1000 * n for name, n in used.items()},
            {name: MEMORY_MEGA - 4000 * n for name, n in used.items()},
            free,
            {"pods": {name: PODS - n for name, n in used.items()}},
        ),
    )
    return Problem(0.0, roles, resource)


def cpu_cluster(jobs: int, nodes: int) -> Problem:
    """`cluster` as a problem for a policy. No job has reported anything."""
    posed, resource = cluster(Size(jobs, nodes, "few"))
    roles = [ElasticRole(RoleId(JobKey(job.name), "trainer"), Owner("default"), job) for job in posed]
    return Problem(0.0, roles, resource, LOAD)


def cpu_seconds(plan: Planner, jobs: Sequence[ElasticJob], resource: ClusterResource) -> tuple[float, dict[str, int]]:
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        diff = plan(jobs, resource, LOAD)
        best = min(best, time.process_time() - began)
        if best > 5:
            break
    return best, diff


def main() -> int:
    code = compare_with_naive(SIZES)
    time_policies()
    return code


def compare_with_naive(sizes: Sequence[Size]) -> int:
    """Prints a table of `fulfillment`. Returns 1 where its fast and its naive form plan differently."""
    print("| jobs | nodes | sizes of replicas | jobs start at | replicas moved | fast | naive |")
    print("|---|---|---|---|---|---|---|")
    for size in sizes:
        jobs, resource = cluster(size)
        fast, diff = cpu_seconds(scale_all_jobs_dry_run, jobs, resource)
        slow = ""
        if size.naive:
            seconds, same = cpu_seconds(scale_one_by_one, jobs, resource)
            if same != diff:
                print("the two do not plan the same: that is a bug", file=sys.stderr)
                return 1
            slow = f"{seconds * 1000:,.0f} ms"
        moved = sum(abs(step) for step in diff.values())
        row = (
            f"{size.jobs:,}",
            f"{size.nodes:,}",
            size.shapes,
            size.start,
            f"{moved:,}",
            f"{fast * 1000:,.0f} ms",
            slow,
        )
        print(f"| {' | '.join(row)} |", flush=True)
    return 0


def time_policies() -> None:
    print("\n| cluster | policy | replicas moved | plan |\n|---|---|---|---|")
    for name, problem in (
        ("40 jobs, 64 GPUs", gpu_cluster(40, 16)),
        ("1,000 jobs, 2,048 GPUs", gpu_cluster(1_000, 512)),
        ("10,000 jobs, 20,000 GPUs on 5,000 nodes", gpu_cluster(10_000, 5_000)),
        ("10,000 new jobs, 5,000 empty nodes of 64 CPUs", cpu_cluster(10_000, 5_000)),
    ):
        for policy in POLICIES:
            seconds, moved = policy_seconds(policy, problem)
            print(f"| {name} | `{policy}` | {moved:,} | {seconds * 1000:,.0f} ms |", flush=True)


def policy_seconds(policy: str, problem: Problem) -> tuple[float, int]:
    """(CPU seconds of the best of three plans, replicas moved)."""
    best, moved = float("inf"), 0
    for _ in range(3):
        began = time.process_time()
        targets = POLICIES[policy].plan(problem).targets
        best = min(best, time.process_time() - began)
        moved = sum(abs(targets[role.id] - role.elastic.parallelism) for role in problem.roles if role.id in targets)
    return best, moved


if __name__ == "__main__":
    sys.exit(main())
