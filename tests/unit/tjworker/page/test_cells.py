"""Every cell of every table of the page: whole rows, compared as the template takes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tjworker.api import labels
from tjworker.api.node_requests import WAITING, NodeRequests
from tjworker.api.observed import NodeRecord
from tjworker.base import GroupResource, JobKey
from tjworker.cli.happenings import Happening
from tjworker.history.records import GONE_AT, Summary
from tjworker.page import views
from tjworker.page.board import Board, JobRow, PodRow
from tjworker.page.views import ROWS_A_PAGE, Filters
from tjworker.store.work_queue import QueueStats

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
STATS = QueueStats(queued=1, delayed=2, running=3, oldest_seconds=4.5, unfinished=5, failing=6)
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


NODE = NodeRecord(
    "node-a", "u", 1, ready="True", allocatable={"cpu": "4", "memory": "8G", "pods": "110", "nvidia.com/gpu": "2"}
)
ASKED = NodeRequests(cpu_milli=1500, memory_bytes=2_000_000_000, pods=3, extended=(("nvidia.com/gpu", 1),))


QUEUE = [
    ("Unfinished jobs", "5"),
    ("Queued", "1, the oldest for 4.5 s"),
    ("Being reconciled", "3"),
    ("Delayed", "2"),
    ("Failing", "6"),
]


def test_figures_count_nodes_that_take_pods_and_pods_without_a_node() -> None:
    nodes = {
        "a": NODE,
        "b": NODE,
        "c": replace(NODE, unschedulable=True),
        "d": replace(NODE, ready="False"),
        "e": replace(NODE, ready="Unknown"),
    }
    quiet = board(nodes=nodes, requests={"a": ASKED}, queue=STATS)
    assert views.figures(quiet) == [("Nodes that take pods", "2 of 5"), ("Pods without a node", "0"), *QUEUE]
    waits = replace(quiet, requests={WAITING: ASKED})
    assert views.figures(waits)[1] == ("Pods without a node", "3, for 1.5 CPUs")


def pod(phase: str = "Running", gone: str = "", node: str = "node-a") -> dict[str, Any]:
    meta = {"name": "digits-0", "creationTimestamp": AN_HOUR_AGO, "labels": {labels.RESTART_ATTEMPT: "2"}}
    ready = [{"name": "aitj-a", "ready": phase == "Running"}]
    return {
        "metadata": meta | ({GONE_AT: gone} if gone else {}),
        "spec": {"nodeName": node, "containers": [{"name": "aitj-a"}]},
        "status": {"phase": phase, "containerStatuses": ready},
    }


def test_an_event() -> None:
    seen = [
        Happening(A_DAY_AGO, AN_HOUR_AGO, 3, "Warning", "BackOff", "pod/digits-0", "again"),
        Happening(AN_HOUR_AGO, AN_HOUR_AGO, 1, "Normal", "Created", "job/digits", "made"),
    ]
    assert views.event_rows(seen, NOW) == [
        {
            "when": "60m",
            "type": "Normal",
            "tone": "quiet",
            "reason": "Created",
            "object": "job/digits",
            "message": "made",
        },
        {
            "when": "60m (x3 over 24h)",
            "type": "Warning",
            "tone": "warn",
            "reason": "BackOff",
            "object": "pod/digits-0",
            "message": "again",
        },
    ]


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
