"""The tasks as Celery runs them: what a process without a usable cluster says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.waiting import PATIENCE_SECONDS
from tjworker import tasks
from tjworker.base import Terminal


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """KUBECONFIG names a file that is no YAML."""
    file = tmp_path / "broken"
    file.write_text("{")
    monkeypatch.setenv("KUBECONFIG", str(file))
    for made in (tasks._kube, tasks._worker, tasks._events):
        made.cache_clear()
    return file


def test_a_broken_kubeconfig_fails_the_task_with_one_line(broken: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for task, args in ((tasks.reconcile, ("aitrainingjobs/default/j",)),):
        done = task.apply(args=args)
        assert done.state == "FAILURE"
        assert isinstance(done.result, Terminal)
        assert task.throws == (Terminal,), "else Celery prints a traceback"
    assert str(broken) in str(done.result.message)
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err


def test_the_watcher_ends_with_one_line_for_a_broken_kubeconfig(broken: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "watcher"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
        env={**os.environ, "TJ_REDIS_URL": "redis://127.0.0.1:1/0"},
    )
    assert done.returncode == 2
    told = (done.stdout + done.stderr).strip()
    assert str(broken) in told
    assert told.count("\n") == 0, told
