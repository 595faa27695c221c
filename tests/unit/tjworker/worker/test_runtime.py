"""The Runtime of a process: when it is made, in each of Celery's pools, and what a process without a usable cluster
says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.support.valkey import Valkey
from tests.support import waiting
from tests.support.paths import ROOT
from tests.support.tiers import one_in
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.base import JobKey, Terminal
from tjworker.publisher import Publisher
from tjworker.settings import Settings, load_settings
from tjworker.store.connect import open_store
from tjworker.worker import tasks
from tjworker.worker.runtime import ProcessRuntime, connect

KEY = JobKey("aitrainingjobs.elasticdeeplearning.ai/default/j")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """KUBECONFIG names a file that is no YAML."""
    file = tmp_path / "broken"
    file.write_text("{")
    monkeypatch.setenv("KUBECONFIG", str(file))
    tasks.use(lambda: connect(load_settings()))
    return file


@pytest.mark.parametrize(
    ("task", "arguments"),
    [(tasks.reconcile, (KEY,)), (tasks.resync, ()), (tasks.collect_orphans, ()), (tasks.autoscale, ())],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_broken_kubeconfig_fails_every_task_with_one_line(
    task: object, arguments: tuple[str, ...], broken: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = task.apply(args=arguments)  # type: ignore[attr-defined]
    assert done.state == "FAILURE"
    assert isinstance(done.result, Terminal)
    assert Terminal in task.throws, "else Celery prints a traceback"  # type: ignore[attr-defined]
    assert str(broken) in str(done.result.message)
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err


def test_threads_that_ask_at_once_get_one_runtime() -> None:
    made = []

    def make() -> object:
        made.append(threading.get_ident())
        return object()

    runtime = ProcessRuntime(make)  # type: ignore[arg-type]
    threads = [threading.Thread(target=runtime.get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


@pytest.mark.parametrize("pool", one_in(3, ["prefork", "solo", "threads"]))
def test_each_pool_of_celery_runs_tasks_on_a_runtime(pool: str, own_valkey: Valkey, tmp_path: Path) -> None:
    passes = tmp_path / "passes"
    environment = {**os.environ, "TJ_REDIS_URL": own_valkey.url, "TJ_TEST_PASSES": str(passes), "PYTHONPATH": str(ROOT)}
    store = open_store(own_valkey.url, "tj")
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "benchmarks.support.empty_pass", "worker", "-P", pool, "-c", "2"],
            env=environment,
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:
        Publisher(Settings(redis_url=own_valkey.url)).publish(store.queue.add([KEY]))
        waiting.until("the key is worked on", passes.exists, context=(tmp_path / "log").read_text)
    finally:
        worker.terminate()
        worker.wait(PATIENCE_SECONDS)
    assert worker.returncode == 0
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_without_a_record_key_there_is_no_runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    parts = {"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "c"}
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **parts}))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    with pytest.raises(Terminal, match=r"TJ_RECORD_KEYS is not set.*openssl rand -hex 32"):
        connect(Settings())
    connect(Settings(record_keys="k" * 32))
