"""What the demo says at its end, and when it counts as a success."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tjstack import paths, summary


@dataclass(frozen=True)
class Case:
    phase: str
    accuracy: float | None
    want: bool


CASES: dict[str, Case] = {
    "a job that succeeded with the accuracy": Case("Succeed", 0.97, True),
    "exactly the accuracy is enough": Case("Succeed", 0.95, True),
    "too low an accuracy is a failure whatever the job says": Case("Succeed", 0.94, False),
    "an accuracy that was not seen is a failure": Case("Succeed", None, False),
    "a failed job is a failure whatever it reached": Case("Failed", 0.99, False),
    "a job that has not ended is none": Case("Running", 0.99, False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_success(case: Case) -> None:
    assert summary.succeeded({"status": {"phase": case.phase}}, case.accuracy) is case.want


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


def test_the_story_does_not_claim_that_no_trainer_was_restarted_when_one_was() -> None:
    text = "\n".join(
        summary.happened(
            summary.Seen(
                JOB,
                [],
                killed="",
                replaced_after_seconds=None,
                grown_after_seconds=3.5,
                restarted_by_growth=["digits-trainer-0"],
                job_seconds=1,
            ),
            1,
        )
    )
    assert "digits-trainer-0 was restarted for it" in text


def test_the_next_steps_can_be_typed_in_a_checkout_and_where_the_wheel_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (paths.project_root() / paths.DEMO).is_file()
    steps = summary.next_steps(paths.words(paths.project_root()))
    assert "  make up                                    the same stack, until Ctrl-C; in it:" in steps
    assert "  kubectl apply -f examples/digits/job.yaml  train again; while it runs:" in steps
    packed = tmp_path / "with a blank"
    packed.mkdir()
    monkeypatch.setattr(paths, "_PACKED", packed)
    assert paths.project_root() == packed
    steps = summary.next_steps(paths.words(packed))
    assert "  tj up                                      the same stack, until Ctrl-C; in it:" in steps
    assert f"  kubectl apply -f '{packed}/examples/digits/job.yaml'  train again; while it runs:" in steps


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
