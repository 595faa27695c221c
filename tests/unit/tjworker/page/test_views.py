"""Lists of the page: what comes first, and what the filters offer."""

from __future__ import annotations

from datetime import UTC, datetime

from tjworker.base import GroupResource, JobKey
from tjworker.page.board import Board, JobRow
from tjworker.page.views import Filters, Listing, job_list

KIND = GroupResource("aitrainingjobs.elasticdeeplearning.ai")
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def row(name: str, phase: str, hour: int, namespace: str = "team-a") -> JobRow:
    at = f"2026-01-01T{hour:02d}:00:00Z"
    return JobRow(
        JobKey(f"{KIND}/{namespace}/{name}"), KIND, namespace, name, "AITrainingJob", phase=phase, created_at=at
    )


ROWS = (
    row("done", "Succeed", 9),
    row("old", "Running", 1),
    row("new", "Running", 8),
    row("waits", "", 5, "team-b"),
    row("failed", "Failed", 2),
)


def listed(**filters: str) -> Listing:
    board = Board({one.key: one for one in ROWS})
    return job_list(board, [(KIND, "team-a"), (KIND, "team-b")], Filters(**filters), NOW)  # type: ignore[arg-type]


def names(found: Listing) -> list[str]:
    return [one["name"] for one in found.rows]


def test_jobs_that_live_come_first_the_newest_above() -> None:
    assert names(listed()) == ["new", "waits", "old", "done", "failed"]


def test_each_phase_is_offered_with_its_number_under_the_other_filters() -> None:
    found = listed(phase="Running", namespace="team-a")
    assert names(found) == ["new", "old"]
    assert dict(found.phases) == {"Running": 2, "Succeed": 1, "Failed": 1}
    assert (found.total, found.all_rows, found.namespaces) == (2, 5, ["team-a", "team-b"])
    assert names(listed(phase="New")) == ["waits"], "the phase of a job that has none"
