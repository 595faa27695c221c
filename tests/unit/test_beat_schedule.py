"""Beat's rows: each task with its own period, whatever the clocks of the machines say."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kombu.message import Message

from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.app import app
from tjworker.publisher import AUTOSCALE, COLLECT_ORPHANS, RESYNC
from tjworker.worker import tasks  # noqa: F401  it registers them
from tjworker.worker.consumer import TaskRequest

PERIODS = {"resync": 11.0, "collect-orphans": 700.0, "autoscale": 3.0}
TASKS = {"resync": RESYNC, "collect-orphans": COLLECT_ORPHANS, "autoscale": AUTOSCALE}


@pytest.fixture(scope="module")
def rows() -> dict[str, Any]:
    """As a beat with three different periods has them."""
    ask = "import beat_schedule, json; print(json.dumps(beat_schedule.beat_schedule))"
    done = subprocess.run(
        [sys.executable, "-c", ask],
        env={f"TJ_{name.upper().replace('-', '_')}_SECONDS": str(seconds) for name, seconds in PERIODS.items()}
        | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_there_is_a_row_for_each_periodic_task_and_no_other(rows: dict[str, Any]) -> None:
    assert {name: row["task"] for name, row in rows.items()} == TASKS


@pytest.mark.parametrize("name", TASKS)
def test_each_comes_with_its_own_period(name: str, rows: dict[str, Any]) -> None:
    assert rows[name]["schedule"] == PERIODS[name]


@pytest.mark.parametrize("name", TASKS)
def test_each_carries_nothing(name: str, rows: dict[str, Any]) -> None:
    assert rows[name].keys() == {"task", "schedule"}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("behind_seconds", [0, 3600])
def test_a_worker_runs_it_however_far_its_clock_is_ahead_of_beats(
    name: str, behind_seconds: int, rows: dict[str, Any]
) -> None:
    """The message as beat sends it, and what Celery asks of each that it has got."""
    beats_clock = datetime.now(UTC) - timedelta(seconds=behind_seconds)
    sent = app.amqp.as_task_v2("an-id", rows[name]["task"], now=beats_clock, **rows[name].get("options", {}))
    message = Message(json.dumps(sent.body), content_type="application/json", content_encoding="utf-8")  # type: ignore[no-untyped-call]
    got = TaskRequest(message, app=app, task=app.tasks[rows[name]["task"]], headers=sent.headers)
    assert not got.maybe_expire()
