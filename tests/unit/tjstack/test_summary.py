"""What the demo says of a job that has failed."""

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
