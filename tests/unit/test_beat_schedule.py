"""Beat's rows: each task with its own period, and an expiry of its own period, too."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS
from tjworker.publisher import AUTOSCALE, COLLECT_ORPHANS, RESYNC

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
def test_each_waits_in_a_long_queue_for_most_of_its_period_and_no_longer(name: str, rows: dict[str, Any]) -> None:
    """Beyond it the next one is sent; much less, and a queue that is behind would never run it."""
    assert 0.5 * PERIODS[name] <= rows[name]["options"]["expires"] < PERIODS[name]


@pytest.mark.parametrize("name", TASKS)
def test_each_carries_nothing(name: str, rows: dict[str, Any]) -> None:
    assert rows[name].keys() == {"task", "schedule", "options"}
