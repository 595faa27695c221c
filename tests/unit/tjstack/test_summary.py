"""What the demo says at its end, and when it counts as a success."""

from __future__ import annotations

from typing import Any

from tjstack import summary

JOB: dict[str, Any] = {
    "metadata": {"creationTimestamp": "2026-01-02T03:04:00Z"},
    "status": {
        "phase": "Succeed",
        "restartCounts": {"trainer": {"application": 1, "node": 0}, "master": {"application": 0}},
        "scaleRecords": [
            {
                "role": "trainer",
                "from": 2,
                "to": 5,
                "time": "2026-01-02T03:04:50Z",
                "reason": "autoscaler: room for 3 more",
            }
        ],
        "failures": [{"pod": "digits-trainer-1", "exitCode": 137, "reason": "Error", "logTail": "one\ntwo"}],
        "conditions": [{"type": "Failed", "status": "True", "message": "trainer is beyond its restart limit"}],
    },
}


def test_the_story_names_phases_restarts_by_cause_failures_and_scaling() -> None:
    text = "\n".join(
        summary.happened(
            summary.Seen(
                JOB,
                [(0.2, "Pending"), (3.0, "Running")],
                killed="digits-trainer-1",
                replaced_after_seconds=2.5,
                grown_after_seconds=3.5,
                restarted_by_growth=[],
                job_seconds=80,
            ),
            95,
        )
    )
    for part in (
        "phases       0.2s  Pending",
        "3.0s  Running",
        "trainer: 1 because its program failed",
        "digits-trainer-1, exit code 137, Error",
        "trainer 2 -> 5 at 50s   autoscaler: room for 3 more",
        "replacement ran 2.5 s later",
        "no trainer was restarted",
        "80 s from apply to end, 95 s in all",
    ):
        assert part in text
    assert "master:" not in text, "a role without restarts has no line"


def test_a_failure_says_why_with_the_jobs_message_its_failures_logs_and_where_the_rest_is() -> None:
    logs = {"worker1": ["boom"], "watcher": []}
    text = "\n".join(summary.failed("not within 60 s: 2 trainers run", JOB, logs, "/state/logs"))
    for part in (
        "not within 60 s: 2 trainers run",
        "trainer is beyond its restart limit",
        "exit code 137",
        "| two",
        "| boom",
        "/state/logs",
    ):
        assert part in text
    assert "watcher" not in text, "an empty log has no place"
    assert "The demo failed: no API" in summary.failed("no API", {}, {}, "/logs")[0]
