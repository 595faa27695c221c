"""Rows, links and pages of the job list, compared as the template takes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tjworker.base import GroupResource, JobKey
from tjworker.history.records import Summary
from tjworker.page import views
from tjworker.page.board import Board, JobRow, PodRow
from tjworker.page.views import ROWS_A_PAGE, Filters

KIND = GroupResource("aitrainingjobs.elasticdeeplearning.ai")
NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
AN_HOUR_AGO, TWO_HOURS_AGO, A_DAY_AGO = "2026-01-02T11:00:00Z", "2026-01-02T10:00:00Z", "2026-01-01T12:00:00Z"
JOB = JobRow(
    key=JobKey(f"{KIND}/team-a/digits"),
    resource=KIND,
    namespace="team-a",
    name="digits",
    kind="AITrainingJob",
    uid="uid-1",
    phase="Running",
    created_at=TWO_HOURS_AGO,
    replicas="3 of 4",
    restarts=2,
    progress=0,
    message="3 of 4 run",
    pods=(PodRow("digits-0", "node-a", "Running"), PodRow("digits-1", "node-a", "Running"), PodRow("w", "", "Pending")),
)
ENDED = Summary(
    str(KIND), "team-a", "digits", "uid-1", "AITrainingJob", "Failed", A_DAY_AGO, TWO_HOURS_AGO, AN_HOUR_AGO, 2, "why"
)
MAY = [(KIND, "team-a")]


def board(*jobs: JobRow, **more: Any) -> Board:
    return Board({job.key: job for job in jobs}, **more)


def test_a_job_in_the_list() -> None:
    new = replace(JOB, name="new", key=JobKey("new"), phase="", created_at="", replicas="", restarts=0, progress=None)
    rows = views.job_list(board(JOB, new), MAY, Filters(), NOW).rows
    link = f"/jobs/{KIND}/team-a/"
    names = ("link", "name", "namespace", "kind", "phase", "tone", "replicas", "restarts", "progress", "age", "since")
    want = [
        (
            f"{link}digits",
            "digits",
            "team-a",
            "AITrainingJob",
            "Running",
            "good",
            "3 of 4",
            2,
            0,
            "120m",
            TWO_HOURS_AGO,
        ),
        (f"{link}new", "new", "team-a", "AITrainingJob", "New", "quiet", "", 0, None, "\u2013", ""),
    ]
    assert rows == [dict(zip((*names, "message"), (*row, "3 of 4 run"), strict=True)) for row in want]


QUERIES: dict[str, tuple[Filters, dict[str, object], str]] = {
    "nothing is chosen": (Filters(), {}, "?"),
    "all is chosen": (
        Filters("team-a", "AITrainingJob", "Running", "dig", 3),
        {},
        "?namespace=team-a&kind=AITrainingJob&phase=Running&q=dig&page=3",
    ),
    "the next page": (Filters(phase="Running", page=2), {"page": 3}, "?phase=Running&page=3"),
    "another phase begins at the first page": (
        Filters("team-a", phase="Running", page=2),
        {"phase": "Failed", "page": 1},
        "?namespace=team-a&phase=Failed",
    ),
    "what a link may not hold": (Filters(text="a&b=c "), {}, "?q=a%26b%3Dc+"),
}


@pytest.mark.parametrize("sentence", QUERIES)
def test_the_query_of_a_link(sentence: str) -> None:
    filters, changed, want = QUERIES[sentence]
    assert filters.query(**changed) == want


PAGES = {
    "no job": (0, 1, (1, 1, 0)),
    "a full page": (ROWS_A_PAGE, 1, (1, 1, ROWS_A_PAGE)),
    "one more": (ROWS_A_PAGE + 1, 1, (1, 2, ROWS_A_PAGE)),
    "the second page": (ROWS_A_PAGE + 1, 2, (2, 2, 1)),
    "a page before the first": (3, 0, (1, 1, 3)),
    "a page after the last": (3, 9, (1, 1, 3)),
}


@pytest.mark.parametrize("sentence", PAGES)
def test_pages(sentence: str) -> None:
    jobs, asked, want = PAGES[sentence]
    every = [replace(ENDED, uid=f"uid-{n}", restarts=n) for n in range(jobs)]
    found = views.history_list(every, Filters("team-a", "AITrainingJob", "Failed", "dig", asked), NOW)
    assert (found.filters.page, found.pages, len(found.rows)) == want
    first = (found.filters.page - 1) * ROWS_A_PAGE
    assert [row["restarts"] for row in found.rows] == list(range(jobs))[first : first + ROWS_A_PAGE]
    assert found.filters == Filters("team-a", "AITrainingJob", "Failed", "dig", found.filters.page)
    assert (found.total, found.all_rows) == (jobs, jobs)


TAKES = {
    "all are the same": (Filters("n", "K", "P", "dig"), True),
    "another namespace": (Filters("m", "K", "P", "dig"), False),
    "another kind": (Filters("n", "L", "P", "dig"), False),
    "another phase": (Filters("n", "K", "Q", "dig"), False),
    "another name": (Filters("n", "K", "P", "dog"), False),
    "letters of another case": (Filters("n", "K", "P", "GIT"), True),
}


@pytest.mark.parametrize("sentence", TAKES)
def test_each_filter_decides_alone(sentence: str) -> None:
    filters, want = TAKES[sentence]
    assert filters.takes("n", "K", "P", "Digits") is want


SHOWN = {
    "it fits": ("abc", 3, "abc"),
    "it is one longer": ("abcd", 3, "abc\u2026"),
    "control characters": ("a\x1b\tb", 9, "a  b"),
}


@pytest.mark.parametrize("sentence", SHOWN)
def test_a_text(sentence: str) -> None:
    words, most, want = SHOWN[sentence]
    assert views.shown(words, most) == want
    assert views.shown("a\tb", 9, "\t") == "a\tb"
