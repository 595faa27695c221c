"""`python -m benchmarks.planning`: how long the autoscaler takes to plan, its fast form beside the naive loop of the
seeds.

CPU time of one process, the best of three. Clusters are made by a fixed seed.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tjworker.autoscale import ClusterResource, ElasticJob, Nodes, scale_all_jobs_dry_run
from tjworker.autoscale.dryrun import scale_one_by_one

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
    """Where the jobs are: at their `min`, or at their `max`, whether there is room for that or not."""
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


def cpu_seconds(plan: Planner, jobs: Sequence[ElasticJob], resource: ClusterResource) -> tuple[float, dict[str, int]]:
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        diff = plan(jobs, resource, LOAD)
        best = min(best, time.process_time() - began)
        if best > 5:
            break
    return best, diff


def main(sizes: Sequence[Size] = SIZES) -> int:
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


if __name__ == "__main__":
    sys.exit(main())
