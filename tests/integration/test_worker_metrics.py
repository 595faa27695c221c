"""What a real worker shows: its processes count together, a child that dies takes nothing with it and leaves nothing
behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from benchmarks.support.valkey import Valkey, free_port
from tests.support.ending_passes import RESYNC_IS_AWAY
from tests.support.paths import ROOT
from tests.support.scraping import scrape, value
from tests.support.waiting import PATIENCE_SECONDS, until
from tjworker.app import make_app
from tjworker.publisher import AUTOSCALE, COLLECT_ORPHANS, RECONCILE, RESYNC
from tjworker.settings import Settings

KEY = "aitrainingjobs.elasticdeeplearning.ai/team-a/{}"


@dataclass
class Worker:
    process: psutil.Process
    port: int
    folder: Path
    redis_url: str

    def send(self, *jobs: str) -> None:
        with make_app(Settings(redis_url=self.redis_url)) as app:
            for job in jobs:
                app.send_task(RECONCILE, args=(KEY.format(job),))
            app.send_task(COLLECT_ORPHANS)

    def passes(self, result: str = "") -> float:
        wanted = {"result": result} if result else {}
        return value(scrape(self.port), "tj_pass_duration_seconds_count", **wanted)

    def files(self) -> set[str]:
        return {str(file.relative_to(self.folder)) for file in self.folder.glob("tj-metrics-*/*.db")}


@pytest.fixture
def worker(own_valkey: Valkey, tmp_path: Path) -> Iterator[Worker]:
    folder, port = tmp_path / "tmp", free_port()
    folder.mkdir()
    told = {"TJ_REDIS_URL": own_valkey.url, "TJ_METRICS_PORT": str(port), "TJ_METRICS_HOST": "127.0.0.1"}
    command = ["celery", "-A", "tests.support.ending_passes", "worker", "-P", "prefork", "-c", "2"]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            env={**os.environ, **told, RESYNC_IS_AWAY: "1", "TMPDIR": str(folder)},
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )
    try:
        until("it is ready", lambda: "ready." in log.read_text(), context=log.read_text)
        yield Worker(psutil.Process(process.pid), port, folder, own_valkey.url)
        process.terminate()
        assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()
        assert not list(folder.glob("tj-metrics-*")), "its files go with it"
    finally:
        process.kill()
        process.wait()


def test_a_worker_shows_how_passes_and_runs_ended_and_goes_on_after_a_child_has_died(worker: Worker) -> None:
    worker.send("done", "refused", "stale", "bug")
    until("all are counted", lambda: worker.passes() == 4, look_seconds=0.05)
    assert {result: worker.passes(result) for result in ("done", "stale", "retried", "failed")} == {
        "done": 1,
        "stale": 1,
        "retried": 1,
        "failed": 1,
    }
    until(
        "the run is counted",
        lambda: value(scrape(worker.port), "tj_periodic_runs_total", task="collect_orphans", result="failed") == 1,
        look_seconds=0.05,
    )
    before = worker.files()
    for child in worker.process.children():
        child.kill()
    worker.send(*["done"] * 6)
    until("its successors count on", lambda: worker.passes("done") == 7, look_seconds=0.05)
    assert worker.passes("retried") == 1, "no total falls"
    places = {name.rpartition("_")[2] for name in worker.files() | before}
    assert places <= {"child-0.db", "child-1.db", "main.db"}, (
        "one for each place in the pool, however many came and went"
    )


def test_a_run_that_a_bug_ends_is_counted_as_failed_and_one_without_redis_is_not(worker: Worker) -> None:
    """Of Redis and of the API server other alerts tell."""
    with make_app(Settings(redis_url=worker.redis_url)) as app:
        # In this order, and one queue: the last is counted after the first has run.
        for task in (RESYNC, AUTOSCALE, AUTOSCALE):
            app.send_task(task)

    def runs(task: str, **labels: str) -> float:
        return value(scrape(worker.port), "tj_periodic_runs_total", task=task, **labels)

    until("both are counted", lambda: runs("autoscale", result="failed") == 2, look_seconds=0.05)
    assert runs("resync") == 0
