"""Redis goes away under real processes of the project: no process exits or hangs, and nothing queued is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.support.valkey import Valkey
from tests.support import waiting
from tjworker.base import JobKey, Transient
from tjworker.publisher import Publisher
from tjworker.settings import Settings
from tjworker.store.connect import client, open_store

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]


class Stack:
    """One prefork worker and beat, with empty passes, and a watcher's publisher in this process."""

    def __init__(self, folder: Path, server: Valkey) -> None:
        self.folder = folder
        self.server = server
        self.store = open_store(server.url, "tj")
        self.publisher = Publisher(Settings(redis_url=server.url))
        self.processes = {"worker": self.start("worker", "-c", "1"), "beat": self.start("beat")}

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "TJ_REDIS_URL": self.server.url,
            "TJ_RESYNC_SECONDS": "2",
            "TJ_LOCK_TTL_SECONDS": "3",
            "TJ_TEST_PASSES": str(self.folder / "passes"),
            "PYTHONPATH": str(ROOT),
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "benchmarks.support.empty_pass", name, *options],
                env=env,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )

    def passes(self) -> set[str]:
        file = self.folder / "passes"
        return set(file.read_text().split()) if file.exists() else set()

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-4000:]}" for path in self.folder.glob("*.log"))

    def until(self, what: str, true: Callable[[], bool]) -> None:
        def holds() -> bool:
            try:
                return true()
            except Transient:
                return False

        waiting.until(what, holds, context=self.logs, look_seconds=0.05)

    def queue(self, name: str) -> JobKey:
        key = JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/{name}")
        self.until(f"{key} is queued", lambda: self.publisher.publish(self.store.queue.add([key])) >= 0)
        return key

    def runs(self, name: str) -> None:
        key = self.queue(name)
        self.until(f"{key} runs", lambda: key in self.passes())

    def all_alive(self) -> bool:
        return all(process.poll() is None for process in self.processes.values())


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Redis is not there yet."""
    server = Valkey(tmp_path, append_only=True)
    stack = Stack(tmp_path, server)
    try:
        yield stack
    finally:
        for process in stack.processes.values():
            process.terminate()
        for process in stack.processes.values():
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        server.kill()


def test_processes_wait_for_a_redis_that_comes_late_is_killed_forgets_everything_and_loses_tasks(stack: Stack) -> None:
    stack.until("the worker says that it waits", lambda: "Cannot connect to redis" in stack.logs())
    stack.server.start()
    stack.runs("after-a-late-start")

    stack.server.kill()
    with pytest.raises(Transient, match="cannot be reached"):
        stack.store.queue.add([JobKey("aitrainingjobs.elasticdeeplearning.ai/default/while-away")])
    stack.server.start()
    stack.runs("after-sigkill")

    with client(stack.server.url) as redis:
        redis.flushall()
    stack.runs("after-flushall")

    # Queued, but its task was lost on the way: only the resync of beat and worker can bring it back.
    lost = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/lost-task")
    assert stack.store.queue.add([lost]) == [lost]
    stack.until("the lost key runs", lambda: lost in stack.passes())

    # Held by a worker that died: its lease lapses.
    held = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/dead-holder")

    def dies_with_it() -> bool:
        """The stack's own worker may be faster: its resync finds the key queued, too."""
        stack.store.queue.add([held])
        return stack.store.queue.acquire(held, "a worker that dies", 1.0) is not None

    stack.until("another worker holds it", dies_with_it)
    (stack.folder / "passes").write_text("")
    stack.until("the dead holder's key runs", lambda: held in stack.passes())

    assert stack.all_alive(), stack.logs()
    assert not list(stack.folder.glob("celerybeat*"))
