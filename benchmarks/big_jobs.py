"""`python -m benchmarks.big_jobs`: the cost of the first pass over a big job, and of the pods that it writes.

CPU time of one process, the best of five: a whole pass, and making the bodies that it writes. Memory is what Python had
allocated at most during a pass, in a run of its own.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tjworker.api import kinds
from tjworker.api.kinds.aitrainingjob import RESOURCE as AITRAININGJOBS
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed
from tjworker.controllers.jobs import reconcile_rules
from tjworker.reconcile import Plan, reconcile
from tjworker.reconcile.plan import Create
from tjworker.reconcile.workloads.environment import role_environment
from tjworker.reconcile.workloads.podbody import pod_body, service_body
from tjworker.settings import Settings


@dataclass(frozen=True, slots=True)
class Size:
    roles: int
    replicas: int


SIZES = (Size(1, 4), Size(1, 1_000), Size(1, 10_000), Size(16, 3_125))
RULES = reconcile_rules(Settings())
NOW = 1_767_229_200.0


def manifest(size: Size) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "ports": [{"name": "aitj-p", "containerPort": 1}]}
    role = {"replicas": size.replicas, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {"replicaSpecs": {f"r{number}": role for number in range(size.roles)}},
    }


def make_bodies(job: TrainingJob, plan: Plan) -> None:
    """The bodies of these writes, and nothing else."""
    env, per_role = role_environment(job), -(-len(plan.writes) // 2 // len(job.roles))
    for role in job.roles:
        for index in range(per_role):
            service_body(job, role, index)
            pod_body(job, role, index, 0, env)


def cpu_seconds(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


def peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    call()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main(sizes: Sequence[Size] = SIZES) -> int:
    print("| job | its manifest | writes | a pass | of that, bodies | memory | one pod |")
    print("|---|---|---|---|---|---|---|")
    for size in sizes:
        raw = manifest(size)
        job = kinds.parse(AITRAININGJOBS, raw)
        if not isinstance(job, TrainingJob):
            print(f"{size} is refused: {job.errors}", file=sys.stderr)
            return 1
        plan = reconcile(job, Observed(), NOW, RULES)
        whole = cpu_seconds(lambda job=job: reconcile(job, Observed(), NOW, RULES))  # type: ignore[misc]
        bodies = cpu_seconds(lambda job=job, plan=plan: make_bodies(job, plan))  # type: ignore[misc]
        memory = peak_bytes(lambda job=job: reconcile(job, Observed(), NOW, RULES))  # type: ignore[misc]
        pod = next(w for w in plan.writes if isinstance(w, Create) and w.resource == "pods")
        row = (
            f"{size.roles} x {size.replicas:,}",
            f"{len(orjson.dumps(raw)) / 1000:.1f} kB",
            f"{len(plan.writes)}",
            f"{whole * 1000:.1f} ms",
            f"{bodies * 1000:.1f} ms",
            f"{memory / 1e6:.1f} MB",
            f"{len(orjson.dumps(pod.body)) / 1000:.1f} kB",
        )
        print(f"| {' | '.join(row)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
