"""`python -m benchmarks.memory`: what a job costs in Redis, while it is suspended, while it runs, when it
has ended, and five minutes later.

The real watcher, worker and store over a Redis of its own; only the cluster is the local one, in the same process and
in virtual time, so that nothing is waited for. Memory of every key as Redis counts it (MEMORY USAGE), over that of an
operator without jobs. What is written with a time to live (own writes, tombstones) is left out of the last column,
as time would.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import redis
import structlog
import yaml

from benchmarks.support.in_turn import assemble_in_turn
from benchmarks.support.inprocess import InProcessTransport, InProcessWatcher
from benchmarks.support.records import with_records
from benchmarks.support.valkey import Valkey
from localcluster.cluster import LocalCluster
from localcluster.driver import VirtualClock
from tjworker.base import JobKey
from tjworker.clock import ClusterClock
from tjworker.kube.client import KubeClient
from tjworker.store.connect import client, open_sealed_store

ROOT = Path(__file__).resolve().parents[1]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JOBS = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs"
PREFIX = "bench-memory"
RUN_SECONDS = 3600.0
DEADLINE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes a job."""

    replicas: int
    suspended: float
    """Before it has run."""
    running: float
    finished: float
    later: float
    """When all that expires has expired."""


class VirtualTime(ClusterClock):
    """Redis is real here and its time is not that of the cluster."""

    def see_redis(self, seconds: float) -> None: ...


class Operator:
    """Cluster, watcher and worker in this process, in virtual time; the store is a real Redis."""

    def __init__(self, url: str, nodes: int) -> None:
        self.clock = VirtualClock()
        self.cluster = LocalCluster(clock=self.clock, seed=1, nodes=nodes)
        for crd in sorted((ROOT / "k8s" / "crds").glob("*.yaml")):
            self.cluster.client.create(CRDS, yaml.safe_load(crd.read_text()))
        self._published: deque[JobKey] = deque()
        settings = with_records(url, PREFIX, write_concurrency=1)
        store, handle = open_sealed_store(settings), self.cluster.apiserver.handle
        self._queue = store.queue
        self._watcher = InProcessWatcher(handle, store, self.publish, now=self.clock, settings=settings)
        self._runtime = assemble_in_turn(
            settings,
            store,
            KubeClient(InProcessTransport(handle)),
            self,
            owner="bench",
            clock=VirtualTime(wall=self.clock, monotonic=self.clock),
        )

    def publish(self, keys: Iterable[JobKey]) -> int:
        before = len(self._published)
        self._published.extend(keys)
        return len(self._published) - before

    def run(self) -> None:
        """Until nothing changes at this moment."""
        before = -1
        while self.cluster.apiserver.store.revision != before or self._published:
            before = self.cluster.apiserver.store.revision
            self.cluster.run_until_idle()
            self._watcher.pump()
            while self._published:
                self._runtime.jobs.run(self._published.popleft())

    def advance(self, seconds: float) -> None:
        self.cluster.advance(seconds)
        self.run()

    def apply(self, name: str, replicas: int, *, suspend: bool = False) -> None:
        container = {
            "name": "aitj-main",
            "image": "trainer:1",
            "command": ["train"],
            "ports": [{"name": "aitj-7164", "containerPort": 7164}],
        }
        annotations = {"fake.localcluster/run-seconds": str(RUN_SECONDS)}
        template = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
        job = {
            "apiVersion": "elasticdeeplearning.ai/v1",
            "kind": "AITrainingJob",
            "metadata": {"name": name},
            "spec": {"suspend": suspend, "replicaSpecs": {"trainer": {"replicas": replicas, "template": template}}},
        }
        self.cluster.client.create(JOBS, job)

    def resync_fully(self) -> None:
        self.publish(self._queue.resync(lost_after_seconds=30, everything=True))
        self.run()

    def phases(self) -> list[str]:
        return [one.get("status", {}).get("phase", "") for one in self.cluster.client.get(JOBS)["items"]]


def measure(url: str, jobs: int, replicas: int) -> Memory:
    suspended = measure_suspended(url, jobs, replicas)
    with client(url) as server:
        server.flushall()
        operator = Operator(url, nodes=1 + jobs * replicas // 50)
        operator.run()
        empty = _used(server)
        for number in range(jobs):
            operator.apply(f"bench-{number}", replicas)
        _until(operator, "Running", jobs)
        running = _used(server)
        for _ in range(4):
            operator.advance(RUN_SECONDS / 4)
        _until(operator, "Succeed", jobs)
        later = ((used - empty) / jobs for used in (running, _used(server), _used(server, lasting=True)))
        return Memory(replicas, suspended, *later)


def measure_suspended(url: str, jobs: int, replicas: int) -> float:
    """Bytes a job, once a pass has noted that it rests."""
    with client(url) as server:
        server.flushall()
        operator = Operator(url, nodes=1)
        operator.run()
        empty = _used(server)
        for number in range(jobs):
            operator.apply(f"bench-{number}", replicas, suspend=True)
        _until(operator, "Suspended", jobs)
        operator.resync_fully()
        return (_used(server) - empty) / jobs


def _until(operator: Operator, phase: str, jobs: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while operator.phases().count(phase) < jobs:
        if time.monotonic() > deadline:
            raise SystemExit(f"not all of {jobs} jobs are {phase} after {DEADLINE_SECONDS:.0f} s")
        # Redis has a clock of its own: a pass that waits for the watch waits there in earnest.
        time.sleep(0.1)
        operator.advance(1)


def _used(server: redis.Redis, *, lasting: bool = False) -> int:
    """Bytes of every key; `lasting`: of those without a time to live."""
    keys = list(server.scan_iter(f"{PREFIX}:*", count=1000))
    with server.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.pttl(key)
            pipe.memory_usage(key, samples=0)
        answers = iter(pipe.execute())
    return sum(size or 0 for lives, size in zip(answers, answers, strict=True) if not lasting or lives == -1)


def render(found: list[Memory]) -> Iterator[str]:
    yield "| Redis, KiB a job | suspended | running | just finished | five minutes later |"
    yield "|---|---|---|---|---|"
    for one in found:
        cells = (f"{used / 1024:.1f}" for used in (one.suspended, one.running, one.finished, one.later))
        yield f"| {one.replicas} pod{'s' if one.replicas > 1 else ''} | {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description="What a job costs in Redis.")
    parser.add_argument(
        "--jobs",
        type=int,
        default=50,
        metavar="N",
        help="at most; fewer where they have more than four pods (default 50)",
    )
    parser.add_argument(
        "--replicas", type=int, nargs="+", default=[1, 4, 64], metavar="N", help="pods a job (default 1 4 64)"
    )
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder, Valkey(Path(folder)) as server:
        found = [measure(server.url, max(1, min(options.jobs, options.jobs * 4 // n)), n) for n in options.replicas]
    print("\n".join(render(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
