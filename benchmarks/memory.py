"""`python -m benchmarks.memory`: what a job costs in Redis, while it runs, when it has ended, and five minutes later.

The real watcher, worker and store over a Redis of its own; only the cluster is the local one, in the same process and in
virtual time, so that nothing is waited for. Memory of every key as Redis counts it (MEMORY USAGE), over that of an operator
without jobs. What is written with a time to live (floors, tombstones) is left out of the last column, as time would.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import structlog

from tests.lives.world import World, job, play, role
from tests.valkey import Valkey
from tjworker.store.connect import client, open_store

PREFIX = "bench-memory"
RUN_SECONDS = 3600
DEADLINE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes a job."""

    replicas: int
    running: float
    finished: float
    later: float
    """When all that expires has expired."""


class RedisWorld(World):
    """The world of the lives, with Redis for its store."""

    def keep_in(self, url: str) -> RedisWorld:
        self.store: Any = open_store(url, PREFIX)
        self.worker = self.make_worker("bench")
        self.start_watcher()
        return self


def measure(url: str, jobs: int, replicas: int) -> Memory:
    with client(url) as server:
        server.flushall()
        world = RedisWorld(nodes=1 + jobs * replicas // 50, seed=1).keep_in(url)
        world.run()
        empty = _used(server)
        for number in range(jobs):
            world.apply(
                job({"trainer": role(replicas, annotations=play(run_seconds=RUN_SECONDS))}, name=f"bench-{number}")
            )
        _until(world, "Running", jobs)
        running = _used(server)
        world.advance(RUN_SECONDS, step_seconds=RUN_SECONDS / 4)
        _until(world, "Succeed", jobs)
        return Memory(
            replicas, *((used - empty) / jobs for used in (running, _used(server), _used(server, lasting=True)))
        )


def _until(world: World, phase: str, jobs: int) -> None:
    def reached() -> bool:
        found = [one.get("status", {}).get("phase") for one in world.get("aitrainingjobs")["items"]]
        return found.count(phase) == jobs

    deadline = time.monotonic() + DEADLINE_SECONDS
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit(f"not all of {jobs} jobs are {phase} after {DEADLINE_SECONDS:.0f} s")
        # Redis has a clock of its own: a pass that waits for the watch waits there in earnest.
        time.sleep(0.1)
        world.advance(1)


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
    yield "| Redis, KiB a job | running | just finished | five minutes later |"
    yield "|---|---|---|---|"
    for one in found:
        cells = (f"{used / 1024:.1f}" for used in (one.running, one.finished, one.later))
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
