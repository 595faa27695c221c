"""`python -m benchmarks.parts`: CPU of a job's way to Running by part: watched events, passes, calls of Redis.

The real projector, writer, store, publisher and worker in one thread over a Redis of their own. The API server is a
dictionary whose CPU is left out. So nothing waits, no thread is woken, no other process is in the way, and what HTTP
and Celery cost is not in it: the figures are those of this code alone, and other work on the machine hardly moves them.
Jobs come `--at-once`: a watch brings as many together, and what a call costs is shared by so many. Of the rounds the
cheapest counts. Redis counts its own CPU, the messages that it has read (round trips), and the bytes in and out.
"""

from __future__ import annotations

import argparse
import io
import itertools
import sys
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import redis
from structlog.stdlib import BoundLogger

from benchmarks.apiserver import NODE, node_status
from benchmarks.loads import job
from benchmarks.player import running
from benchmarks.support.in_turn import assemble_in_turn
from benchmarks.support.records import with_records
from benchmarks.support.replacing import replaced
from benchmarks.support.valkey import Valkey
from tjworker.api import kinds
from tjworker.api.kinds import written_status
from tjworker.api.kinds.aitrainingjob import RESOURCE as AITRAININGJOBS
from tjworker.api.records_json import decode_view
from tjworker.api.resources import NODES, PODS, SERVICES
from tjworker.base import KEYS_PER_TASK, GroupResource, JobKey
from tjworker.clock import ClusterClock
from tjworker.controllers import jobs, observing
from tjworker.controllers.jobs import JobReconciler
from tjworker.execution import executor
from tjworker.execution.executor import Executor
from tjworker.kube.client import KubeClient
from tjworker.kube.decode import loads
from tjworker.kube.port import HttpResponse, Stream
from tjworker.publisher import Publisher
from tjworker.reconcile import reconcile
from tjworker.settings import Settings
from tjworker.store.connect import client, open_sealed_store
from tjworker.store.redis_projection import RedisProjection
from tjworker.store.redis_work_queue import RedisWorkQueue
from tjworker.store.sealed_store import SealedProjection
from tjworker.telemetry.events import EventRecorder
from tjworker.telemetry.logging import configure_logging
from watcher.event_queue import EventQueue
from watcher.outage import Outage
from watcher.projection_writer import ProjectionWriter
from watcher.projector import Projector
from watcher.redis_retry import RedisRetry

SOURCES = (AITRAININGJOBS, PODS, SERVICES, NODES)
DEADLINE_SECONDS = 60.0
EVENT, PASS, LEFT_OUT = "the watcher", "a worker", ""
Part = tuple[str, str]
"""(whose, what)"""


class Ledger:
    """CPU of this thread by part: a part's own, without that of the parts that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[Part, float] = defaultdict(float)
        self.calls: dict[Part, int] = defaultdict(int)
        self._part = (LEFT_OUT, "")
        self._since = time.thread_time()

    def _turn(self, part: Part) -> Part:
        now = time.thread_time()
        self.seconds[self._part] += now - self._since
        before, self._part, self._since = self._part, part, now
        return before

    def timed(self, part: Part, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            before = self._turn(part)
            self.calls[part] += 1
            try:
                return call(*arguments, **named)
            finally:
                self._turn(before)

        return timed

    def begin(self) -> None:
        self._turn(self._part)
        self.seconds.clear()
        self.calls.clear()


class Cluster:
    """An API server of jobs, pods and services that accepts every write, in the sizes of a real one. A Transport."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self._versions = itertools.count(1_000)
        self._news: dict[GroupResource, list[bytes]] = defaultdict(list)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> HttpResponse:
        sent = orjson.loads(body or b"{}")
        if method == "POST":
            return HttpResponse(201, self.create(path, sent))
        return HttpResponse(200, self.write_status(path.removesuffix("/status"), sent["status"]))

    def create(self, path: str, obj: dict[str, Any]) -> bytes:
        version = next(self._versions)
        meta = obj["metadata"]
        meta |= {
            "uid": f"00000000-0000-0000-0000-{version:012}",
            "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "generation": 1,
        }
        path = f"{path}/{meta['name']}"
        self.objects[path] = obj
        return self._tell(path, "ADDED", version)

    def write_status(self, path: str, status: Any) -> bytes:
        self.objects[path]["status"] = status
        return self._tell(path, "MODIFIED", next(self._versions))

    def _tell(self, path: str, kind: str, version: int) -> bytes:
        obj = self.objects[path]
        obj["metadata"]["resourceVersion"] = str(version)
        # As long as an API server's: what is managed names every field.
        fields: dict[str, Any] = {f"f:{name}": {} for name in orjson.dumps(obj).decode().split('"')[1::2]}
        obj["metadata"]["managedFields"] = [{"manager": "bench", "operation": "Update", "fieldsV1": fields}]
        plural = path.split("/")[-2]
        resource = next((one for one in SOURCES if one.partition(".")[0] == plural), None)
        text = orjson.dumps(obj)
        if resource:
            self._news[resource].append(b'{"type":"%s","object":%s}' % (kind.encode(), text))
        return text

    def take_news(self) -> Mapping[GroupResource, list[bytes]]:
        news, self._news = self._news, defaultdict(list)
        return news

    def stream(self, path: str, *, query: Mapping[str, str], read_timeout_seconds: float) -> Stream:
        raise NotImplementedError("its news is taken")

    def close(self) -> None: ...


class Operator:
    def __init__(self, url: str, publisher: Publisher) -> None:
        self.cluster = Cluster()
        self._publisher = publisher
        self._published: deque[JobKey] = deque()
        self._broker = client(url)
        settings = with_records(url, write_concurrency=1)
        store = open_sealed_store(settings)
        self._queue = EventQueue(1_000_000)
        self._writer = ProjectionWriter(
            store,
            self.publish,
            self._queue,
            redis=RedisRetry(threading.Event(), time.monotonic),
            token=1,
            sources=SOURCES,
            now=time.monotonic,
        )
        self._writer.lead()
        outage = Outage(time.monotonic)
        self._projectors = {one: Projector(one, self._queue, lambda: "bench", outage) for one in SOURCES}
        for projector in self._projectors.values():
            projector.list_begins()
            projector.list_ends(1)
        kube = KubeClient(self.cluster)
        self._runtime = assemble_in_turn(settings, store, kube, self, owner="bench", clock=ClusterClock())
        self.run()
        self.cluster.create("/api/v1/nodes", {"metadata": {"name": NODE}, "status": node_status()})
        self.run()

    def publish(self, keys: Iterable[JobKey]) -> int:
        """To Celery's queue as well, which `run` takes them from, as a worker would."""
        keys = list(keys)
        self._publisher.publish(keys)
        self._published.extend(keys[::KEYS_PER_TASK])
        return len(keys)

    def run(self) -> None:
        """Until nothing is new: what a watch has brought, then the passes, and so on."""
        while True:
            for resource, lines in self.cluster.take_news().items():
                events = [(event["type"], event["object"]) for event in map(loads, lines)]
                version = int(events[-1][1]["metadata"]["resourceVersion"])
                self._projectors[resource].events(events, version)
            self._writer.step(0)
            # After its first call the writer sweeps, in several steps.
            while not self._writer.synced:
                self._writer.step(0)
            if not self._published:
                return
            while self._published:
                self._broker.rpop(Settings().key_prefix)
                self._runtime.jobs.run(self._published.popleft())

    def play(self, pods: Iterable[str]) -> None:
        for path in pods:
            pod = self.cluster.objects[path]
            self.cluster.write_status(path, running(pod, "10.64.0.1"))
        self.run()

    def to_running(self, name: str, jobs: int, replicas: int, at_once: int) -> None:
        root = "/apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs"
        for first in range(0, jobs, at_once):
            before = set(self.cluster.objects)
            for number in range(first, min(jobs, first + at_once)):
                self.cluster.create(root, job(f"{name}-{number}", replicas))
            self.run()
            self.play(path for path in list(self.cluster.objects) if "/pods/" in path and path not in before)
        phases = {obj.get("status", {}).get("phase") for path, obj in self.cluster.objects.items() if root in path}
        if phases != {"Running"}:
            raise SystemExit(f"jobs are {phases}, not Running")


@dataclass(frozen=True, slots=True)
class Found:
    jobs: int
    parts: Mapping[Part, tuple[int, float]]
    """(whose, what) -> calls and CPU seconds."""
    redis_seconds: float
    trips: int
    bytes: int

    @property
    def cpu_seconds(self) -> float:
        return self.redis_seconds + sum(spent for _, spent in self.parts.values())


THIS = sys.modules[__name__]
PARTS: Sequence[tuple[Any, Callable[..., Any], Part]] = (
    (Cluster, Cluster.request, (LEFT_OUT, "")),
    (THIS, loads, (EVENT, "reading events")),
    (Projector, Projector.events, (EVENT, "projecting them")),
    (ProjectionWriter, ProjectionWriter.step, (EVENT, "the writer's books and steps")),
    (RedisProjection, RedisProjection.apply, (EVENT, "apply: client of Redis")),
    (RedisProjection, RedisProjection.apply_node_requests, (EVENT, "node requests: client of Redis")),
    (SealedProjection, SealedProjection.apply, (EVENT, "sealing")),
    (Publisher, Publisher.publish, (EVENT, "publishing keys")),
    (JobReconciler, JobReconciler.run, (PASS, "what is not named below")),
    (RedisWorkQueue, RedisWorkQueue.acquire_views, (PASS, "claims and views: client of Redis")),
    (RedisProjection, RedisProjection.nodes, (PASS, "nodes: client of Redis")),
    (RedisWorkQueue, RedisWorkQueue.renew, (PASS, "renewal: client of Redis")),
    (RedisWorkQueue, RedisWorkQueue.renew_all, (PASS, "renewal: client of Redis")),
    (RedisWorkQueue, RedisWorkQueue.finish_all, (PASS, "finish: client of Redis")),
    (SealedProjection, SealedProjection.open_view, (PASS, "opening seals")),
    (observing, decode_view, (PASS, "reading records")),
    (kinds, kinds.parse, (PASS, "parsing the job")),
    (jobs, reconcile, (PASS, "deciding, bodies of pods")),
    (Executor, Executor.apply, (PASS, "executor")),
    (executor, written_status, (PASS, "status to JSON")),
    (EventRecorder, EventRecorder.event, (PASS, "events")),
    (KubeClient, KubeClient._request_json, (PASS, "JSON of requests and answers")),
    (BoundLogger, BoundLogger.info, (PASS, "log lines")),
)
"""What is timed, each without what it calls of the others: the class or module whose attribute is replaced, and the
function. A module is named for a function that it imports and calls."""


def measure(url: str, jobs: int, replicas: int, at_once: int) -> Found:
    ledger = Ledger()
    with ExitStack() as stack:
        for owner, function, part in PARTS:
            stack.enter_context(replaced(owner, function, ledger.timed(part, function)))
        server = stack.enter_context(client(url))
        server.flushall()
        operator = Operator(url, Publisher(Settings(redis_url=url)))
        operator.to_running("warm", 20, replicas, at_once)
        before = _told(server)
        ledger.begin()
        operator.to_running("bench", jobs, replicas, at_once)
        after = _told(server)
    parts = {part: (ledger.calls[part], spent) for part, spent in ledger.seconds.items() if part[0] != LEFT_OUT}
    return Found(jobs, parts, after[0] - before[0], after[1] - before[1], after[2] - before[2])


def _told(server: redis.Redis) -> tuple[float, int, int]:
    """CPU seconds, messages read, bytes in and out: since the server began."""
    said: dict[str, Any] = server.info("everything")
    cpu = said["used_cpu_user_main_thread"] + said["used_cpu_sys_main_thread"]
    return cpu, said["total_reads_processed"], said["total_net_input_bytes"] + said["total_net_output_bytes"]


def render(found: Found) -> Iterator[str]:
    yield "| whose | part | calls a job | ms a job |"
    yield "|---|---|---|---|"
    for whose in (EVENT, PASS):
        rows = sorted(((spent, calls, what) for (of, what), (calls, spent) in found.parts.items() if of == whose))
        yield f"| **{whose}** | | | **{sum(row[0] for row in rows) / found.jobs * 1000:.2f}** |"
        for spent, calls, what in reversed(rows):
            yield f"| | {what} | {calls / found.jobs:.1f} | {spent / found.jobs * 1000:.3f} |"
    yield f"| **Redis** | | | **{found.redis_seconds / found.jobs * 1000:.2f}** |"
    yield f"| | round trips a job | {found.trips / found.jobs:.1f} | |"
    yield f"| | KiB a job, in and out | {found.bytes / found.jobs / 1024:.1f} | |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parts", description="CPU of a job by part.")
    parser.add_argument("--jobs", type=int, default=300, metavar="N", help="(default 300)")
    parser.add_argument("--replicas", type=int, default=1, metavar="N", help="pods a job (default 1)")
    parser.add_argument("--at-once", type=int, default=4, metavar="N", help="jobs that come together (default 4)")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="(default 3)")
    options = parser.parse_args(arguments)
    configure_logging(Settings(), stream=io.StringIO())
    with tempfile.TemporaryDirectory(prefix="tj-bench-") as folder, Valkey(Path(folder), append_only=True) as server:
        rounds = [measure(server.url, options.jobs, options.replicas, options.at_once) for _ in range(options.rounds)]
    cheapest = min(rounds, key=lambda one: one.cpu_seconds)
    print("\n".join(render(cheapest)))
    if never := {what for _, _, (whose, what) in PARTS if whose} - {what for _, what in cheapest.parts}:
        # A change of the product has moved a call; or too few jobs for what comes once a second.
        print(f"never called, so its row is missing: {', '.join(sorted(never))}", file=sys.stderr)
    return 1 if never else 0


if __name__ == "__main__":
    sys.exit(main())
