"""`python -m benchmarks.staleness`: how far the projection is behind a cluster of many pods that change all the time.

The watcher's own parts as they run, the reflector's side on one thread and the writer on another, over a Redis of their
own; a third thread does what a worker does with a key, without a pass. Events are made beforehand, as text, and come at
the given rate. The staleness of an event is the time from when it was due to the end of the call that wrote it. HTTP
and TLS are not in it. CPU is that of the whole process: of the watcher's parts and of that third thread.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import orjson

from benchmarks.apiserver import NODE
from benchmarks.loads import job
from benchmarks.player import running
from benchmarks.support.records import with_records
from benchmarks.support.valkey import Valkey
from tjworker.api.kinds.aitrainingjob import RESOURCE as AITRAININGJOBS
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.kube.decode import loads
from tjworker.publisher import Publisher
from tjworker.settings import Settings
from tjworker.store.connect import open_store
from tjworker.store.projection import Change
from tjworker.store.seal import open_seal
from tjworker.store.sealed_store import SealedProjection, SealedStore
from tjworker.store.work_queue import PassEnding
from tjworker.telemetry.logging import configure_logging
from watcher.event_queue import EventQueue
from watcher.outage import Outage
from watcher.projection_writer import ProjectionWriter
from watcher.projector import Projector
from watcher.redis_retry import RedisRetry

ROOM = 50_000
PODS_A_JOB = 50
PAGE = 500
FIRST = 1_000
"""The first version of a change; those of the lists are older."""
READ_SECONDS = 0.005
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Late:
    pods: int
    rate: int
    seconds: tuple[float, ...]
    """Of each event."""
    cpu_seconds: float
    """Of this process while they came."""
    lasted: float

    def at(self, share: float) -> float:
        return sorted(self.seconds)[min(len(self.seconds) - 1, int(share * len(self.seconds)))]


def pod(number: int, version: int) -> dict[str, Any]:
    """Pod `number`; what of it changes is the start of its container."""
    name = f"big-{number // PODS_A_JOB}"
    container = {"name": "aitj-train", "image": "example.org/train:1", "command": ["train"]}
    owner = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": name, "uid": name}
    meta = {
        "name": f"{name}-trainer-{number % PODS_A_JOB}",
        "namespace": "default",
        "uid": f"pod-{number}",
        "resourceVersion": str(version),
        "labels": {"job-name": name, "replica-name": "trainer", "replica-index": str(number % PODS_A_JOB)},
        "ownerReferences": [{**owner, "controller": True}],
    }
    made: dict[str, Any] = {"metadata": meta, "spec": {"nodeName": NODE, "containers": [container]}}
    status = running(made, "10.64.0.1")
    status["containerStatuses"][0]["restartCount"] = version
    return {**made, "status": status}


def jobs(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        raw = job(f"big-{number}", PODS_A_JOB)
        raw["metadata"] |= {"uid": f"big-{number}", "resourceVersion": "2", "generation": 1}
        yield raw


class Seen(SealedProjection):
    """Notes when each version was written."""

    due: Mapping[int, float] = {}
    late: list[float]

    def apply(
        self, token: int, changes: Sequence[Change], *, progress: Mapping[str, int] | None = None
    ) -> list[JobKey]:
        keys = super().apply(token, changes, progress=progress)
        now = time.monotonic()
        self.late += [now - self.due[change.rv] for change in changes if change.rv in self.due]
        return keys


class Watched:
    def __init__(self, url: str, publisher: Publisher) -> None:
        settings = with_records(url)
        plain = open_store(settings.redis_url, settings.key_prefix)
        seal = open_seal(settings.record_key_list, settings.key_prefix)
        self._seen = Seen(plain.projection, seal, plain.maintenance.once)
        self._seen.late = []
        self._work_queue = plain.queue
        self._publisher = publisher
        self._published: SimpleQueue[JobKey | None] = SimpleQueue()
        self._events = EventQueue(ROOM)
        self._stopped = threading.Event()
        self._writer = ProjectionWriter(
            SealedStore(self._seen, plain.queue, plain.maintenance),
            self._publish,
            self._events,
            redis=RedisRetry(self._stopped, time.monotonic),
            token=1,
            sources=(AITRAININGJOBS, PODS),
            now=time.monotonic,
        )
        self._writer.lead()
        outage = Outage(time.monotonic)
        self._projectors = {
            one: Projector(one, self._events, lambda: "bench", outage) for one in (AITRAININGJOBS, PODS)
        }

    def _publish(self, keys: Sequence[JobKey]) -> None:
        self._publisher.publish(keys)
        for key in keys:
            self._published.put(key)

    def list_all(self, pods: int) -> None:
        lists = {AITRAININGJOBS: jobs(-(-pods // PODS_A_JOB)), PODS: (pod(number, 3) for number in range(pods))}
        for resource, objects in lists.items():
            self._projectors[resource].list_begins()
            while page := list(islice(objects, PAGE)):
                self._projectors[resource].page(page, 3)
                self._writer.step(0)
            self._projectors[resource].list_ends(3)
        while len(self._events) or not self._writer.synced:
            self._writer.step(0)

    def _write(self) -> None:
        while not self._stopped.is_set():
            self._writer.step()

    def _work(self) -> None:
        while (key := self._published.get()) is not None:
            taken = self._work_queue.acquire_views(key, "bench", 30, 1)
            self._work_queue.finish_all([PassEnding(claim) for claim, _ in taken.views])

    def follow(self, pods: int, rate: int, seconds: int) -> Late:
        lines = [
            b'{"type":"MODIFIED","object":%s}' % orjson.dumps(pod(number * 7919 % pods, FIRST + number))
            for number in range(rate * seconds)
        ]
        threads = [threading.Thread(target=target) for target in (self._write, self._work)]
        for thread in threads:
            thread.start()
        began, cpu, sent = time.monotonic(), time.process_time(), 0
        self._seen.due = {FIRST + number: began + number / rate for number in range(len(lines))}
        while len(self._seen.late) < len(lines):
            upto = min(len(lines), int((time.monotonic() - began) * rate))
            if upto > sent:
                events = [(event["type"], event["object"]) for event in map(loads, lines[sent:upto])]
                self._projectors[PODS].events(events, FIRST + upto - 1)
                sent = upto
            time.sleep(READ_SECONDS)
            if time.monotonic() - began > DEADLINE_SECONDS:
                raise SystemExit(f"{len(lines) - len(self._seen.late)} events are not written after a minute")
        lasted, cpu = time.monotonic() - began, time.process_time() - cpu
        self._stopped.set()
        self._published.put(None)
        for thread in threads:
            thread.join()
        return Late(pods, rate, tuple(self._seen.late), cpu, lasted)


def measure(url: str, pods: int, rate: int, seconds: int) -> Late:
    watched = Watched(url, Publisher(Settings(redis_url=url)))
    watched.list_all(pods)
    return watched.follow(pods, rate, seconds)


def render(found: Sequence[Late]) -> Iterator[str]:
    yield "| pods | changes a second | staleness p50, ms | p99, ms | longest, ms | cores busy | all in after, s |"
    yield "|---|---|---|---|---|---|---|"
    for one in found:
        cells = (f"{one.at(share) * 1000:.0f}" for share in (0.5, 0.99, 1))
        yield (
            f"| {one.pods:,} | {one.rate:,} | {' | '.join(cells)} | {one.cpu_seconds / one.lasted:.2f} |"
            f" {one.lasted:.1f} |"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.staleness", description="How late the projection is.")
    parser.add_argument("--pods", type=int, default=20_000, metavar="N", help="(default 20,000)")
    parser.add_argument(
        "--rates", type=int, nargs="+", default=[500], metavar="N", help="changes a second (default 500)"
    )
    parser.add_argument("--seconds", type=int, default=20, metavar="S", help="for so long (default 20)")
    options = parser.parse_args(arguments)
    configure_logging(Settings(), stream=io.StringIO())
    found = []
    for rate in options.rates:
        with (
            tempfile.TemporaryDirectory(prefix="tj-bench-") as folder,
            Valkey(Path(folder), append_only=True) as server,
        ):
            found.append(measure(server.url, options.pods, rate, options.seconds))
    print("\n".join(render(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
