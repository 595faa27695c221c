"""`python -m benchmarks.hops` without its processes: which steps are noted, and what the table says."""

from __future__ import annotations

import pkgutil
from pathlib import Path

import pytest

from benchmarks.hops import render
from benchmarks.marks import CHILD, MAIN, PLAYER, WATCHER, Marks

REQUESTS = {
    "POST /api/v1/namespaces/default/pods": "POST pods",
    "GET /api/v1/namespaces/default/pods/digits-trainer-0": "GET pods",
    "PUT /apis/elasticdeeplearning.ai/v1/namespaces/default/aitrainingjobs/digits/status": "PUT aitrainingjobs/status",
    "GET /version": "GET version",
}


@pytest.mark.parametrize("name", [*WATCHER, *MAIN, *CHILD, *PLAYER])
def test_each_step_is_there(name: str) -> None:
    assert callable(pkgutil.resolve_name(name))


@pytest.mark.parametrize(("request_line", "want"), REQUESTS.items())
def test_a_request_is_named_without_its_object(request_line: str, want: str, tmp_path: Path) -> None:
    file = tmp_path / "marks"
    send = Marks(str(file)).around("child:", lambda *_: "answer")
    method, path = request_line.split()
    assert send("the transport", method, path) == "answer"
    assert [line.partition(" ")[2] for line in file.read_text().splitlines()] == [f"+child: {want}", f"-child: {want}"]


def test_a_step_that_fails_ends_too(tmp_path: Path) -> None:
    file = tmp_path / "marks"
    with pytest.raises(ZeroDivisionError):
        Marks(str(file)).around("watcher: publish", lambda: 1 / 0)()
    assert [line.split()[1][0] for line in file.read_text().splitlines()] == ["+", "-"]


def test_the_table_has_the_median_of_each_step_that_most_jobs_have_and_the_slowest_job() -> None:
    jobs = [
        [(0.001, "+a"), (0.004, "-a"), (0.005, "+a")],
        [(0.002, "+a"), (0.005, "-a"), (0.007, "+a")],
        [(0.003, "+a"), (0.030, "-a"), (0.300, "+a"), (0.301, "+rare")],
    ]
    text = list(render(jobs, [0.010, 0.020, 0.310]))
    assert text[0] == "creation to Running: p50 20.0 ms, p99 310.0"
    medians, slowest = text[: text.index("The slowest:")], text[text.index("The slowest:") :]
    assert medians[-4:-1] == ["| 2.0 | 2.0 | begins | a |", "| 5.0 | 3.0 | ends | a |", "| 7.0 | 2.0 | begins | a |"]
    assert slowest[-1] == "| 301.0 | 1.0 | begins | rare |"
