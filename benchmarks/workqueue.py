"""What the store costs: microseconds a call, on a valkey-server of its own or on TJ_TEST_REDIS_URL.

    python -m benchmarks.workqueue

Prints one table. One client, one thread, loopback: so these are round trips, not the most that Redis can do. (Not named
queue.py: run as a script, it would hide Python's own module of that name.)
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.support.valkey import Valkey
from tjworker.api.kinds.aitrainingjob import RESOURCE as AITRAININGJOBS
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.store.connect import client, open_store
from tjworker.store.port import Store
from tjworker.store.projection import Change
from tjworker.store.work_queue import Claim, PassEnding, Written

PREFIX = "bench-workqueue"
RECORD = b'{"pod":"' + b"x" * 1200 + b'"}'
KEYS = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/job-{n:05}") for n in range(10_000)]


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def taken(store: Store, key: JobKey) -> Claim:
    views = store.queue.acquire_views(key, "bench", 30, 1).views
    if not views:
        raise RuntimeError(f"{key} was not queued")
    return views[0][0]


def passes(store: Store, count: int) -> None:
    for key in KEYS[:count]:
        store.queue.add([key])
        store.queue.finish_all([PassEnding(taken(store, key))])


def views(store: Store, count: int) -> None:
    for key in KEYS[:count]:
        store.projection.view(key)


def renewals(store: Store, count: int) -> None:
    store.queue.add(KEYS[:1])
    claim = taken(store, KEYS[0])
    for number in range(count):
        store.queue.renew(claim, 30)
        store.queue.raise_min_observed(claim, Written([(PODS, number)]))
    store.queue.finish_all([PassEnding(claim)])


def jobs(store: Store, rv: int, count: int) -> None:
    store.projection.apply(
        1, [Change(key, AITRAININGJOBS, key.rsplit("/", 1)[1], rv, RECORD, is_job=True) for key in KEYS[:count]]
    )


def pods(store: Store, rv: int) -> None:
    """1,000 changes: 4 pods of 250 jobs, in batches of 50 as a watch delivers them."""
    changes = [Change(key, PODS, f"p-{n}", rv + n, RECORD) for key in KEYS[:250] for n in range(4)]
    for start in range(0, 1000, 50):
        store.projection.apply(1, changes[start : start + 50], progress={PODS: rv})


def measure(store: Store) -> dict[str, tuple[int, float]]:
    """name -> (calls, seconds)."""
    store.projection.lead(1)
    rows = {
        "add + acquire + finish of a key": (3000, seconds(lambda: passes(store, 3000))),
        "apply a job, 10,000 new ones in one call": (10_000, seconds(lambda: jobs(store, 1, 10_000))),
    }
    rows["apply a pod, 1,000 new ones in batches of 50"] = (1000, seconds(lambda: pods(store, 10)))
    rows["apply a pod, 1,000 changes in batches of 50"] = (1000, seconds(lambda: pods(store, 20)))
    rows["apply a pod again (no news)"] = (1000, seconds(lambda: pods(store, 20)))
    rows["view of a job with 4 pods"] = (250, seconds(lambda: views(store, 250)))
    rows["renew + raise_min_observed"] = (1000, seconds(lambda: renewals(store, 1000)))
    rows["full resync of 10,000 unfinished jobs"] = (
        1,
        seconds(lambda: store.queue.resync(lost_after_seconds=1e9, everything=True)),
    )
    return rows


def main() -> int:
    with ExitStack() as stack:
        url = os.environ.get("TJ_TEST_REDIS_URL")
        if not url:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tj-bench-"))
            url = stack.enter_context(Valkey(Path(folder))).url
        rows = measure(open_store(url, PREFIX))
        with client(url) as redis:
            for key in redis.scan_iter(f"{PREFIX}:*"):
                redis.delete(key)
    print("| call | µs | a second |")
    print("|---|---|---|")
    for name, (count, took) in rows.items():
        print(f"| {name} | {took / count * 1e6:,.0f} | {count / took:,.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
