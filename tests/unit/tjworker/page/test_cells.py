"""Every cell of every table of the page: whole rows, compared as the template takes them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.builders import make_job
from tjworker.api import labels
from tjworker.api.node_requests import WAITING, NodeRequests
from tjworker.api.observed import NodeRecord
from tjworker.api.status import ScaleRecord
from tjworker.base import GroupResource, JobKey
from tjworker.cli.happenings import Happening
from tjworker.cli.narrative import SHOWN_RECORDS, Section
from tjworker.history.records import GONE_AT, Summary
from tjworker.page import views
from tjworker.page.board import Board, JobRow, PodRow
from tjworker.page.views import ROWS_A_PAGE, SHOWN_EVENTS, SHOWN_PODS, Filters
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


PAST: dict[str, tuple[Summary, dict[str, str]]] = {
    "it failed, and was deleted later": (
        ENDED,
        {"phase": "Failed", "tone": "bad", "ended": "120m ago", "deleted": "60m ago"},
    ),
    "it succeeded and is there": (
        replace(ENDED, phase="Succeed", deleted_at=""),
        {"phase": "Succeed", "tone": "good", "ended": "120m ago", "deleted": "\u2013"},
    ),
    "it was deleted while it ran: what colour it had then is no news": (
        replace(ENDED, phase="Running", ended_at=""),
        {"phase": "Running", "tone": "quiet", "ended": "\u2013", "deleted": "60m ago"},
    ),
    "it was deleted before it had a phase": (
        replace(ENDED, phase="", ended_at=""),
        {"phase": "New", "tone": "quiet", "ended": "\u2013", "deleted": "60m ago"},
    ),
}


@pytest.mark.parametrize("sentence", PAST)
def test_a_job_of_the_past(sentence: str) -> None:
    summary, want = PAST[sentence]
    same = {"link": "/history/team-a/uid-1", "name": "digits", "namespace": "team-a", "kind": "AITrainingJob"}
    same |= {"ended_at": summary.ended_at, "deleted_at": summary.deleted_at, "message": "why"}
    assert views.history_list([summary], Filters(), NOW).rows == [{**same, "restarts": 2, **want}]


NODE = NodeRecord(
    "node-a", "u", 1, ready="True", allocatable={"cpu": "4", "memory": "8G", "pods": "110", "nvidia.com/gpu": "2"}
)
ASKED = NodeRequests(cpu_milli=1500, memory_bytes=2_000_000_000, pods=3, extended=(("nvidia.com/gpu", 1),))
NODE_ROW = {
    "name": "node-a",
    "state": "Ready",
    "tone": "good",
    "cpu": {"words": "1.5 of 4", "percent": 38},
    "memory": {"words": "2 of 8", "percent": 25},
    "gpu": {"words": "1 of 2", "percent": 50},
    "pods": "3 of 110",
    "jobs": [{"name": "team-a/digits", "link": f"/jobs/{KIND}/team-a/digits", "pods": 2}],
}
NOTHING_ASKED = {
    "cpu": {"words": "0 of 4", "percent": 0},
    "memory": {"words": "0 of 8", "percent": 0},
    "gpu": {"words": "0 of 2", "percent": 0},
    "pods": "0 of 110",
}
NODES: dict[str, tuple[NodeRecord, NodeRequests | None, dict[str, Any]]] = {
    "it is ready": (NODE, ASKED, {}),
    "it is not ready": (replace(NODE, ready="False"), ASKED, {"state": "Not ready", "tone": "bad"}),
    "its kubelet is silent": (replace(NODE, ready="Unknown"), ASKED, {"state": "Not ready", "tone": "bad"}),
    "it is cordoned": (replace(NODE, unschedulable=True), ASKED, {"state": "Cordoned", "tone": "warn"}),
    "it is cordoned and not ready": (
        replace(NODE, unschedulable=True, ready="False"),
        ASKED,
        {"state": "Cordoned", "tone": "warn"},
    ),
    "nothing asks for anything there": (NODE, None, NOTHING_ASKED),
    "it has no GPUs": (replace(NODE, allocatable={"cpu": "4", "memory": "8G", "pods": "110"}), ASKED, {"gpu": None}),
    "more is asked for than it has": (
        NODE,
        replace(ASKED, cpu_milli=9_000),
        {"cpu": {"words": "9 of 4", "percent": 100}},
    ),
    "what it has makes no sense": (
        replace(NODE, allocatable={"cpu": "four"}),
        None,
        {
            "cpu": {"words": "0 of 0", "percent": 0},
            "memory": {"words": "0 of 0", "percent": 0},
            "gpu": None,
            "pods": "0 of 0",
        },
    ),
}


@pytest.mark.parametrize("sentence", NODES)
def test_a_node(sentence: str) -> None:
    node, asked, want = NODES[sentence]
    stranger = replace(JOB, key=JobKey("b"), namespace="team-b")
    seen = board(JOB, stranger, nodes={"node-a": node}, requests={"node-a": asked} if asked else {})
    assert views.node_rows(seen, MAY, ["nvidia.com/gpu"]) == [NODE_ROW | want]


def test_gpus_of_several_names_are_summed_and_jobs_on_a_node_are_in_order() -> None:
    node = replace(NODE, allocatable={"a/gpu": "2", "b/gpu": "4"})
    asked = NodeRequests(extended=(("a/gpu", 1), ("b/gpu", 2), ("other", 9)))
    late = replace(JOB, key=JobKey("z"), name="abc")
    found = views.node_rows(
        board(JOB, late, nodes={"node-a": node}, requests={"node-a": asked}), MAY, ["a/gpu", "b/gpu"]
    )
    assert found[0]["gpu"] == {"words": "3 of 6", "percent": 50}
    assert [job["name"] for job in found[0]["jobs"]] == ["team-a/abc", "team-a/digits"]


def test_a_worker_and_its_jobs_of_which_foreign_ones_have_no_name() -> None:
    stranger = replace(JOB, key=JobKey("b"), namespace="team-b")
    running = {JOB.key: "worker-1", stranger.key: "worker-1", JobKey("of no record"): "worker-2"}
    seen = board(JOB, stranger, running=running, workers=("worker-0", "worker-1"))
    assert views.worker_rows(seen, MAY) == [
        {"name": "worker-0", "jobs": []},
        {"name": "worker-1", "jobs": ["team-a/digits", "another job"]},
        {"name": "worker-2", "jobs": ["another job"]},
    ]


QUEUE = [
    ("Unfinished jobs", "5"),
    ("Queued", "1, the oldest for 4.5 s"),
    ("Being reconciled", "3"),
    ("Delayed", "2"),
    ("Failing", "6"),
]
QUEUES: dict[str, tuple[QueueStats | None, list[tuple[str, str]], str]] = {
    "jobs wait": (STATS, QUEUE, ""),
    "none waits": (replace(STATS, queued=0), [QUEUE[0], ("Queued", "0"), *QUEUE[2:]], ""),
    "one waits for half a minute": (
        replace(STATS, oldest_seconds=30.0),
        [QUEUE[0], ("Queued", "1, the oldest for 30.0 s"), *QUEUE[2:]],
        "",
    ),
    "one waits for longer": (
        replace(STATS, oldest_seconds=31.0),
        [QUEUE[0], ("Queued", "1, the oldest for 31.0 s"), *QUEUE[2:]],
        "No worker has a job, and 1 jobs wait, the oldest for 31s: `tj doctor` says whether workers run.",
    ),
    "it cannot be read": (None, [("Queue", "not known")], "The queue cannot be read."),
}


@pytest.mark.parametrize("sentence", QUEUES)
def test_the_queue(sentence: str) -> None:
    stats, want, note = QUEUES[sentence]
    assert views.queue_figures(board(queue=stats)) == want
    assert views.workers_note(board(queue=stats, workers=("worker-0",))) == note


def test_where_no_worker_is_known_a_note_says_who_knows_more() -> None:
    assert "`tj doctor`" in views.workers_note(board(queue=STATS))
    assert views.workers_note(board(queue=STATS, running={JOB.key: "worker-1"})) == ""


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


POD_ROW = {
    "name": "digits-0",
    "phase": "Running",
    "tone": "good",
    "ready": "1/1",
    "attempt": "2",
    "node": "node-a",
    "age": "60m",
}
PODS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "it runs": (pod(), {}),
    "it waits for a node": (
        pod("Pending", node=""),
        {"phase": "Pending", "tone": "quiet", "ready": "0/1", "node": "\u2013"},
    ),
    "it is of the past, and ran": (pod(gone=AN_HOUR_AGO), {"phase": "Deleted", "tone": "warn"}),
    "it is of the past, and waited": (
        pod("Pending", gone=AN_HOUR_AGO),
        {"phase": "Deleted", "tone": "warn", "ready": "0/1"},
    ),
    "it is of the past, and had failed": (
        pod("Failed", gone=AN_HOUR_AGO),
        {"phase": "Failed", "tone": "bad", "ready": "0/1"},
    ),
}


@pytest.mark.parametrize("sentence", PODS)
def test_a_pod(sentence: str) -> None:
    raw, want = PODS[sentence]
    assert views.pod_rows([raw], NOW) == [POD_ROW | want]


def test_so_many_pods_and_events_are_shown_and_no_more() -> None:
    assert len(views.pod_rows([pod()] * (SHOWN_PODS + 1), NOW)) == SHOWN_PODS
    seen = [
        Happening(AN_HOUR_AGO, AN_HOUR_AGO, 1, "Normal", f"R{n}", "job/digits", "") for n in range(SHOWN_EVENTS + 5)
    ]
    shown = [row["reason"] for row in views.event_rows(seen, NOW)]
    assert shown == [f"R{n}" for n in range(SHOWN_EVENTS + 4, 4, -1)], "the newest, above"


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


def test_changes_of_size_have_a_table_once_the_narrative_leaves_some_out() -> None:
    def rows(count: int) -> list[dict[str, Any]]:
        one = ScaleRecord(role="trainer", from_=1, to=2, time=AN_HOUR_AGO, reason="room")
        job = make_job("digits").workers(2).status(phase="Running", scale_records=(one,) * count).build()
        return views.scale_rows(job, NOW)

    assert rows(SHOWN_RECORDS) == []
    row = {"ago": "60m ago", "at": AN_HOUR_AGO, "role": "trainer", "change": "1 \u2192 2", "reason": "room"}
    assert rows(SHOWN_RECORDS + 1) == [row] * (SHOWN_RECORDS + 1)


def test_a_section_keeps_warnings_and_the_lines_of_logs_apart() -> None:
    lines = ("first", "    | one", "    | two", "! beware", "    | three", "last")
    assert views.section_blocks([Section("Failures", lines), Section("", ())]) == [
        {
            "title": "Failures",
            "parts": [
                ("line", "first"),
                ("log", "one\ntwo"),
                ("warning", "beware"),
                ("log", "three"),
                ("line", "last"),
            ],
        },
        {"title": "", "parts": []},
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


def test_filters_offer_what_there_is_in_order() -> None:
    every = [
        replace(ENDED, uid="1", namespace="b", kind="B", phase="Failed"),
        replace(ENDED, uid="2", namespace="a", kind="A", phase="Succeed"),
        replace(ENDED, uid="3", namespace="a", kind="A", phase="Timeout"),
        replace(ENDED, uid="4", namespace="a", kind="A", phase="Succeed"),
    ]
    found = views.history_list(every, Filters(kind="A"), NOW)
    assert (found.namespaces, found.kinds) == (["a", "b"], ["A", "B"])
    assert list(found.phases) == [("Succeed", 2), ("Timeout", 1)], "the most frequent first"
    assert (found.total, found.all_rows) == (3, 4)


TONES = {
    "good": ("Running", "Succeed", "Succeeded", "Ready"),
    "bad": (
        "Failed",
        "Timeout",
        "Error (137)",
        "OOMKilled (137)",
        "CrashLoopBackOff",
        "ErrImagePull",
        "NodeFail",
        "Not ready",
    ),
    "warn": ("Restarting", "Scaling", "Terminating", "Suspended", "Cordoned", "Deleted"),
    "quiet": ("", "Pending", "New", "Creating"),
}


@pytest.mark.parametrize(("tone", "word"), [(tone, word) for tone, words in TONES.items() for word in words])
def test_the_colour_of_a_word(tone: str, word: str) -> None:
    assert views.tone(word) == tone


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
