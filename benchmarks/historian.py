"""`python -m benchmarks.historian`: what the history costs the watcher and Redis, with and without it in one run.

Whole lives of jobs go through the parts of the watcher (decoder, projector, writer, historian) into a Redis of its own:
each job is created, runs, succeeds and is deleted, with its pods. Rounds with and without the history take turns. HTTP
and TLS are not in it. The historian runs on this thread, so that its CPU is not hidden by another core.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Event
from typing import Any

import orjson

from benchmarks.apiserver import NODE
from benchmarks.loads import job
from benchmarks.player import running
from benchmarks.support.records import with_records
from benchmarks.support.valkey import Valkey
from tjworker.api.kinds.aitrainingjob import RESOURCE as AITRAININGJOBS
from tjworker.api.labels import JOB_UID
from tjworker.api.resources import PODS
from tjworker.base import GroupResource
from tjworker.history.redis_history import RedisHistory
from tjworker.history.store import Bounds
from tjworker.kube.decode import loads
from tjworker.settings import Settings
from tjworker.store.connect import client, open_sealed_store
from tjworker.store.redis_commands import RedisCommands
from tjworker.telemetry.logging import configure_logging
from watcher.event_queue import EventQueue
from watcher.historian import Historian
from watcher.outage import Outage
from watcher.projection_writer import ProjectionWriter
from watcher.projector import Projector
from watcher.redis_retry import RedisRetry

JOBS_A_WRITE = 50
DAY = 86_400.0
Line = tuple[GroupResource, bytes]


@dataclass(frozen=True, slots=True)
class Cost:
    watcher_seconds: float
    redis_seconds: float
    """CPU of the whole round."""
    memory_bytes: int
    """What Redis holds at its end."""


def lines(jobs: int, pods: int) -> Iterator[list[Line]]:
    """The events of each job's life, as a watch sends them."""
    version = 10
    for number in range(jobs):
        name, events = f"life-{number}", []
        raw = job(name, pods)
        raw["metadata"] |= {"uid": name, "generation": 1, "creationTimestamp": "2026-11-28T00:00:00Z"}
        made = [_pod(name, index) for index in range(pods)]
        for kind, phase in (("ADDED", ""), ("MODIFIED", "Running"), ("MODIFIED", "Succeed"), ("DELETED", "Succeed")):
            end = {"completionTime": "2026-11-28T00:10:00Z"} if phase == "Succeed" else {}
            status = {"phase": phase, "message": f"{pods} of {pods} replicas are there", **end} if phase else {}
            of_pods = {"ADDED": "ADDED", "DELETED": "DELETED"}.get(kind, "MODIFIED")
            for one in made:
                if phase == "Running":
                    one = {**one, "status": running(one, "10.64.0.1")}  # noqa: PLW2901
                elif phase == "Succeed":
                    one = {**one, "status": {"phase": "Succeeded"}}  # noqa: PLW2901
                version += 1
                events.append((PODS, _line(of_pods, one, version)))
            version += 1
            events.insert(-pods, (AITRAININGJOBS, _line(kind, {**raw, "status": status}, version)))
        yield events


def _line(kind: str, obj: dict[str, Any], version: int) -> bytes:
    seen = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}
    return orjson.dumps({"type": kind, "object": seen})


def _pod(name: str, index: int) -> dict[str, Any]:
    owner = {"apiVersion": "elasticdeeplearning.ai/v1", "kind": "AITrainingJob", "name": name, "uid": name}
    meta = {
        "name": f"{name}-trainer-{index}",
        "namespace": "default",
        "uid": f"{name}-{index}",
        "labels": {"job-name": name, "replica-name": "trainer", "replica-index": str(index), JOB_UID: name},
        "ownerReferences": [{**owner, "controller": True}],
    }
    container = {"name": "aitj-train", "image": "example.org/train:1", "command": ["train"]}
    return {"metadata": meta, "spec": {"nodeName": NODE, "containers": [container]}, "status": {"phase": "Pending"}}


def measure(server: Valkey, lives: Sequence[Sequence[Line]], *, with_history: bool) -> Cost:
    settings = with_records(server.url)
    historian = None
    if with_history:
        commands = RedisCommands(client(server.url), settings.key_prefix, where=server.url)
        historian = Historian(RedisHistory(commands, Bounds(7 * DAY, 10_000)), 7 * DAY, now=time.time)
    events = EventQueue(1 << 30)
    writer = ProjectionWriter(
        open_sealed_store(settings),
        lambda keys: None,
        events,
        redis=RedisRetry(Event(), time.monotonic),
        token=1,
        sources=(AITRAININGJOBS, PODS),
        now=time.monotonic,
    )
    writer.lead()
    outage = Outage(time.monotonic)
    projectors = {
        one: Projector(one, events, lambda: "bench", outage, historian=historian) for one in (AITRAININGJOBS, PODS)
    }
    for projector in projectors.values():
        projector.list_begins()
        projector.list_ends(1)
    redis = client(server.url)
    began, redis_began = time.process_time(), _cpu_seconds(redis)
    for number, life in enumerate(lives, 1):
        for resource, line in life:
            event = loads(line)
            version = int(event["object"]["metadata"]["resourceVersion"])
            projectors[resource].events([(event["type"], event["object"])], version)
        if number % JOBS_A_WRITE == 0 or number == len(lives):
            while len(events):
                writer.step(0)
            if historian is not None:
                historian.write()
    spent, redis_spent = time.process_time() - began, _cpu_seconds(redis) - redis_began
    kept = int(redis.zcard(f"{settings.key_prefix}:history:jobs"))
    if kept != (len(lives) if with_history else 0):
        raise SystemExit(f"the history has {kept} of {len(lives)} jobs")
    return Cost(spent, redis_spent, int(redis.info("memory")["used_memory"]))


def _cpu_seconds(redis: Any) -> float:
    info = redis.info("cpu")
    return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def render(jobs: int, pods: int, without: Sequence[Cost], having: Sequence[Cost]) -> Iterator[str]:
    yield f"| {jobs:,} lives of {pods} pods, medians of {len(having)} rounds | without | with | the history |"
    yield "|---|---|---|---|"
    for name, of in (
        ("CPU of the watcher's parts, ms a job", lambda cost: 1000 * cost.watcher_seconds / jobs),
        ("CPU of Redis, ms a job", lambda cost: 1000 * cost.redis_seconds / jobs),
        ("memory of Redis at the end, KB a job", lambda cost: cost.memory_bytes / 1000 / jobs),
    ):
        before, after = median(map(of, without)), median(map(of, having))
        yield f"| {name} | {before:.2f} | {after:.2f} | {after - before:.2f} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.historian", description="What the history costs.")
    parser.add_argument("--jobs", type=int, default=1_000, metavar="N", help="(default 1,000)")
    parser.add_argument("--pods", type=int, default=4, metavar="N", help="of each job (default 4)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="(default 5)")
    options = parser.parse_args(arguments)
    configure_logging(Settings(), stream=io.StringIO())
    lives = list(lines(options.jobs, options.pods))
    found: dict[bool, list[Cost]] = {False: [], True: []}
    for number in range(2 * options.rounds):
        # Each order comes first as often as the other.
        with_history = number % 2 == number // 2 % 2
        with (
            tempfile.TemporaryDirectory(prefix="tj-bench-") as folder,
            Valkey(Path(folder), append_only=True) as server,
        ):
            found[with_history].append(measure(server, lives, with_history=with_history))
    print("\n".join(render(options.jobs, options.pods, found[False], found[True])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
