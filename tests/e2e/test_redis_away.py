"""Redis goes away under real processes of the project: no process exits or hangs, and nothing queued is lost.

How long Redis is away matters more than how often: timers of the worker run on meanwhile, and go off together when it
is back. The limits of a task are therefore scaled down with the outage.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from benchmarks.support.valkey import Valkey, free_port
from tests.support import waiting
from tests.support.black_hole import BlackHole
from tests.support.kubeconfig import make_kubeconfig
from tests.support.queueing import acquire_one
from tjworker.base import JobKey, Transient
from tjworker.publisher import Publisher
from tjworker.settings import Settings
from tjworker.store.connect import client, open_store

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]


SOFT_SECONDS = 3.0
AWAY_SECONDS = 8.0
"""Longer than both limits of a task."""
GRACE_SECONDS = 75.0
KEYS = 3_000


class Stack:
    """One prefork worker and beat, with empty passes, and a watcher's publisher in this process. Between the processes
    and Redis lies a line that can lose everything."""

    def __init__(self, folder: Path, server: Valkey, line: BlackHole, *, here: str = "") -> None:
        """`here`: how this process reaches Redis; by default without the line."""
        self.folder = folder
        self.server = server
        self.line = line
        self.ports = {name: free_port() for name in ("worker", "beat")}
        self.store = open_store(here or server.url, "tj")
        self.publisher = Publisher(Settings(redis_url=here or server.url))
        self.processes = {"worker": self.start("worker", "-c", "2"), "beat": self.start("beat")}

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "TJ_REDIS_URL": f"redis://127.0.0.1:{self.line.port}/0",
            "TJ_TASK_SOFT_TIME_LIMIT_SECONDS": str(SOFT_SECONDS),
            "TJ_HEALTH_HOST": "127.0.0.1",
            "TJ_HEALTH_PORT": str(self.ports[name]),
            "TJ_RESYNC_SECONDS": "2",
            "TJ_LOCK_TTL_SECONDS": "3",
            "TJ_TEST_PASSES": str(self.folder / "passes"),
            "PYTHONPATH": str(ROOT),
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "tests.support.deep_pass", name, *options],
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

    def probe(self, name: str, path: str) -> tuple[int, dict[str, object]]:
        """0 before it listens."""
        try:
            url = f"http://127.0.0.1:{self.ports[name]}{path}"
            with urllib.request.urlopen(url, timeout=waiting.PATIENCE_SECONDS) as answer:
                return int(answer.status), orjson.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, orjson.loads(error.read())
        except ConnectionError:
            return 0, {}
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
            return 0, {}

    def all_alive(self) -> bool:
        return all(process.poll() is None for process in self.processes.values())


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    """Redis is not there yet."""
    server = Valkey(tmp_path, append_only=True)
    line = BlackHole(server.port)
    stack = Stack(tmp_path, server, line)
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
        line.close()
        server.kill()


def test_processes_wait_for_a_redis_that_comes_late_is_killed_forgets_everything_and_loses_tasks(stack: Stack) -> None:
    stack.until("the worker says that it waits", lambda: "Redis cannot be used" in stack.logs())
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
        return acquire_one(stack.store.queue, held, "a worker that dies", 1.0) is not None

    stack.until("another worker holds it", dies_with_it)
    (stack.folder / "passes").write_text("")
    stack.until("the dead holder's key runs", lambda: held in stack.passes())

    assert stack.all_alive(), stack.logs()
    assert not list(stack.folder.glob("celerybeat*"))


@dataclass(frozen=True)
class Outage:
    begins: Callable[[Stack], object]
    ends: Callable[[Stack], object]
    takes_tasks: bool = False
    """Tasks are fetched all the same, and each fails."""


def tell(*words: str) -> Callable[[Stack], object]:
    def told(stack: Stack) -> object:
        with client(stack.server.url) as redis:
            return redis.execute_command(*words)

    return told


OUTAGES = {
    "killed": Outage(lambda stack: stack.server.kill(), lambda stack: stack.server.start()),
    "behind a line that loses every packet": Outage(
        lambda stack: stack.line.swallow(), lambda stack: stack.line.pass_on()
    ),
    "read-only": Outage(tell("REPLICAOF", "127.0.0.1", "1"), tell("REPLICAOF", "NO", "ONE")),
    "full": Outage(tell("CONFIG", "SET", "maxmemory", "1"), tell("CONFIG", "SET", "maxmemory", "0"), takes_tasks=True),
}


@pytest.mark.long
@pytest.mark.parametrize("sentence", OUTAGES)
def test_a_redis_that_is_away_for_longer_than_a_task_may_take(sentence: str, stack: Stack) -> None:
    outage = OUTAGES[sentence]
    stack.server.start()
    stack.runs("before")
    keys = [JobKey(f"aitrainingjobs.elasticdeeplearning.ai/default/load-{n}") for n in range(KEYS)]
    stack.publisher.publish(stack.store.queue.add(keys))
    stack.until("passes are under way", lambda: len(stack.passes()) > 1)

    outage.begins(stack)
    began = time.monotonic()
    if not outage.takes_tasks:
        stack.until("the worker knows", lambda: bool(stack.probe("worker", "/readyz")[1].get("redis_away")))
        assert stack.probe("worker", "/readyz")[0] == 503
    stack.until("it lasts", lambda: time.monotonic() - began > AWAY_SECONDS)
    assert [stack.probe(name, "/healthz")[0] for name in ("worker", "beat")] == [200, 200], "alive: it only waits"
    outage.ends(stack)

    stack.runs("after")
    stack.until("the worker takes tasks", lambda: stack.probe("worker", "/readyz")[0] == 200)
    stack.until("beat sends", lambda: stack.probe("beat", "/readyz")[0] == 200)
    assert stack.all_alive(), stack.logs()
    for name, process in stack.processes.items():
        process.terminate()
        assert process.wait(GRACE_SECONDS) == 0, f"{name} ends in order\n{stack.logs()}"
    log = (stack.folder / "worker.log").read_text()
    for words in ("Traceback", "Unrecoverable", "Hard time limit", "Soft time limit", "EMERGENCY"):
        assert words not in log, stack.logs()
    assert log.count("Redis cannot be used") <= 2, "an outage is a line, not a line a second"


@pytest.mark.long
@pytest.mark.parametrize("sentence", OUTAGES)
def test_sigterm_ends_each_process_while_redis_is_away(sentence: str, stack: Stack) -> None:
    """Before the limit at which a worker that hangs ends itself, with a 1."""
    outage = OUTAGES[sentence]
    stack.server.start()
    stack.runs("before")
    stack.until("the worker takes tasks", lambda: stack.probe("worker", "/readyz")[0] == 200)
    stack.until("beat sends", lambda: stack.probe("beat", "/readyz")[0] == 200)
    outage.begins(stack)
    if not outage.takes_tasks:
        stack.until("the worker knows", lambda: stack.probe("worker", "/readyz")[0] == 503)
        stack.until("beat knows", lambda: stack.probe("beat", "/readyz")[0] == 503)
    for process in stack.processes.values():
        process.terminate()
    codes = {name: process.wait(GRACE_SECONDS) for name, process in stack.processes.items()}
    assert codes == {"worker": 0, "beat": 0}, stack.logs()


@pytest.mark.long
def test_sigterm_ends_the_page_while_viewers_wait_for_a_silent_redis(tmp_path: Path) -> None:
    (pod,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", (ROOT / "k8s/page/page.yaml").read_text())
    server = Valkey(tmp_path)
    server.start()
    line, port = BlackHole(server.port), free_port()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(orjson.dumps(make_kubeconfig(f"http://127.0.0.1:{free_port()}")))
    env = {
        **os.environ,
        "TJ_REDIS_URL": f"redis://127.0.0.1:{line.port}/0",
        "KUBECONFIG": str(kubeconfig),
        "TJ_PAGE_PORT": str(port),
        "TJ_PAGE_ACCESS": "kubeconfig",
        "PYTHONPATH": str(ROOT),
    }
    with (tmp_path / "page.log").open("wb") as log:
        page = subprocess.Popen([sys.executable, "-m", "tjworker.page"], env=env, cwd=tmp_path, stdout=log, stderr=log)

    def look() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=waiting.PATIENCE_SECONDS) as answer:
                return int(answer.status)
        except OSError:
            return 0

    try:
        waiting.until("the page answers", lambda: look() == 200, context=(tmp_path / "page.log").read_text)
        line.swallow()
        with ThreadPoolExecutor() as viewers:
            # A view that is younger than a second is shown again without a look at Redis.
            waiting.until("a view waits", lambda: wait([viewers.submit(look)], timeout=0.5).not_done, look_seconds=0.2)
            page.terminate()
            # Half of what its pod has: its threads go on waiting for longer, as long as an answer may take.
            assert page.wait(int(pod) / 2) == 0, (tmp_path / "page.log").read_text()
    finally:
        page.kill()
        page.wait()
        line.close()
        server.kill()
