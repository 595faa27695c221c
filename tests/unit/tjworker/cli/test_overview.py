"""The table of `tj up`: what can be read on a terminal of eighty columns and on a narrower one, and what comes
first."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console, RenderableType

from tjworker.cli.overview import MAX_JOBS, MAX_PODS, job_table, pod_table

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LONG = (
    "pod digits-trainer-4 on node node-0 failed: container aitj-trainer exited with code 2; restartLimit 20 is used up"
)


def job(name: str, phase: str = "Running", message: str = LONG, minute: int = 3) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": f"2026-01-02T03:0{minute}:00Z"},
        "status": {"phase": phase, "active": "2/4", "restarts": 1, "message": message},
    }


def pod(name: str, phase: str = "Running") -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {}},
        "spec": {"containers": [{}], "nodeName": "node-0"},
        "status": {"phase": phase},
    }


def printed(table: RenderableType, columns: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=columns, color_system=None)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_long_message_gives_way_and_nothing_else_does(columns: int) -> None:
    lines = printed(job_table([job("restart-limit", "Restarting")], NOW), columns)
    assert len(lines) == 2
    assert lines[0].startswith("JOB             PHASE        ACTIVE   RESTARTS   AGE   ")
    assert lines[1].startswith("restart-limit   Restarting   2/4      1          65s   ")
    assert len(lines[1]) <= columns
    assert lines[1].endswith("used up" if columns == 200 else "…")


def test_jobs_that_go_on_come_first_then_the_youngest() -> None:
    found = [job("a", "Succeed", minute=1), job("b", "Failed", minute=2), job("c", minute=1), job("d", minute=3)]
    assert [line.split()[0] for line in printed(job_table(found, NOW))[1:]] == ["d", "c", "b", "a"]


def test_pods_that_go_on_come_before_those_that_have_ended() -> None:
    found = [pod("a", "Succeeded"), pod("b", "Failed"), pod("c"), pod("d", "Pending")]
    assert [line.split()[0] for line in printed(pod_table(found, NOW))[1:]] == ["c", "d", "a", "b"]


def test_what_has_no_room_is_counted() -> None:
    jobs = printed(job_table([job(f"j{i:02}") for i in range(MAX_JOBS + 3)], NOW))
    pods = printed(pod_table([pod(f"p{i:02}") for i in range(MAX_PODS + 1)], NOW))
    assert (len(jobs), jobs[-1]) == (MAX_JOBS + 2, "... and 3 more")
    assert (len(pods), pods[-1]) == (MAX_PODS + 2, "... and 1 more")
