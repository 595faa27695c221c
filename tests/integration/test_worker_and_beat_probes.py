"""The probes of workers and beat, put to real processes that are stopped, wedged, or left without Redis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from celery.utils.nodenames import default_nodename

from benchmarks.support.valkey import Valkey, free_port
from tests.support import fast_yaml as yaml
from tests.support.paths import ROOT
from tests.support.waiting import until
from tjworker.app import make_app
from tjworker.settings import Settings

CELERY_AS_IT_COMES = """
import sys
from celery.worker import control
cancel = control.Panel.data["cancel_consumer"]
import tjworker.worker.consumer  # takes it out
control.Panel.data["cancel_consumer"] = cancel
from celery.__main__ import main
main()
"""
"""A worker that obeys what ours refuse."""


class Probed:
    """A process, and what the probes of its manifest get as an answer."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path, paths: dict[str, str]) -> None:
        self.process, self.port, self.log, self.paths = process, port, log, paths

    def ask(self, kind: str, timeout_seconds: float = 30) -> tuple[int, str]:
        """0 without an answer."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{self.paths[kind]}", timeout=timeout_seconds
            ) as answer:
                return int(answer.status), str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def answers(self, alive: int, ready: int) -> bool:
        return (self.ask("livenessProbe")[0], self.ask("readinessProbe")[0]) == (alive, ready)

    def until(self, what: str, alive: int, ready: int) -> None:
        until(what, lambda: self.answers(alive, ready), context=self.log.read_text, look_seconds=0.1)


Start = Callable[..., Probed]


@pytest.fixture
def start(own_valkey: Valkey, tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def go(component: str, *command: str) -> Probed:
            port, log = free_port(), tmp_path / "log"
            told = {"TJ_REDIS_URL": own_valkey.url, "TJ_HEALTH_PORT": str(port), "TJ_HEALTH_HOST": "127.0.0.1"}
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [sys.executable, *command], env={**os.environ, **told}, cwd=ROOT, stdout=output, stderr=output
                )
            stack.callback(process.wait)
            stack.callback(process.kill)
            stack.callback(process.send_signal, signal.SIGCONT)
            return Probed(process, port, log, paths_of(component))

        yield go


def paths_of(component: str) -> dict[str, str]:
    """Of the probes in the manifest."""
    documents: list[Any] = list(yaml.safe_load_all((ROOT / f"k8s/base/{component}.yaml").read_text(encoding="utf-8")))
    container = documents[-1]["spec"]["template"]["spec"]["containers"][0]
    (told,) = [e["value"] for e in container["env"] if e["name"] == "TJ_HEALTH_PORT"]
    assert {"name": "health", "containerPort": int(told)} in container["ports"]
    for kind in ("livenessProbe", "readinessProbe"):
        assert container[kind]["httpGet"]["port"] == "health"
    return {kind: container[kind]["httpGet"]["path"] for kind in ("livenessProbe", "readinessProbe")}


@pytest.mark.long
def test_a_beat_that_does_not_run_gives_no_answer(start: Start) -> None:
    beat = start("beat", "-m", "celery", "-A", "tjworker.app", "beat")
    beat.until("it ticks", 200, 200)
    beat.process.send_signal(signal.SIGSTOP)
    assert beat.ask("livenessProbe", timeout_seconds=2) == (0, "")
    beat.process.send_signal(signal.SIGCONT)
    beat.until("it ticks again", 200, 200)


def test_a_beat_without_redis_is_alive_and_not_ready(start: Start, own_valkey: Valkey) -> None:
    own_valkey.kill()
    beat = start("beat", "-m", "celery", "-A", "tjworker.app", "beat")
    beat.until("it waits for Redis", 200, 503)
    own_valkey.start()
    beat.until("Redis takes its tasks", 200, 200)


WORKER = ("-A", "tests.support.ending_passes", "worker", "--pool", "prefork", "--concurrency", "1")


def test_a_worker_that_answers_and_takes_no_task_is_not_alive(start: Start, own_valkey: Valkey) -> None:
    worker = start("worker", "-c", CELERY_AS_IT_COMES, *WORKER)
    worker.until("it takes tasks", 200, 200)
    with make_app(Settings(redis_url=own_valkey.url)) as app:
        queue, name = app.conf.task_default_queue, default_nodename(None)
        app.control.cancel_consumer(queue, destination=[name], reply=True, timeout=60.0)
        worker.until("it is seen", 503, 503)
        assert app.control.inspect(destination=[name], timeout=60.0).ping(), "as alive as a ping can tell"
    assert f"it does not consume the queue {queue}" in worker.ask("livenessProbe")[1]


@pytest.mark.long
def test_a_worker_waits_for_redis_alive_and_not_ready_and_one_that_is_stopped_gives_no_answer(
    start: Start, own_valkey: Valkey
) -> None:
    worker = start("worker", "-m", "celery", *WORKER)
    worker.until("it takes tasks", 200, 200)
    own_valkey.kill()
    worker.until("it waits for Redis", 200, 503)
    own_valkey.start()
    worker.until("it takes tasks again", 200, 200)
    worker.process.send_signal(signal.SIGSTOP)
    assert worker.ask("livenessProbe", timeout_seconds=2) == (0, "")
