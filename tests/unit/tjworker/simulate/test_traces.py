"""Rows that cannot be used are named one by one, and the rest is simulated; a file that is no trace says so."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tjworker.simulate import ScenarioError
from tjworker.simulate.scenario import Amounts, SimulatedNode
from tjworker.simulate.traces import read_trace

NODES = [SimulatedNode(f"node-{i}", Amounts(8000, 1 << 34, 4)) for i in range(2)]
OWN = "name,time,replicas,duration,gpus\na,0,2,60,1\n"
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:00:00,60,4,240,x\n"

BAD_ROWS = {
    "a gap": (OWN, "b,,2,60,1", "time is '', and not a number of seconds from 0 on; the row is left out"),
    "a row that ends early": (OWN, "b,10", "it has not 5 values, as the header has columns; the row is left out"),
    "a job larger than the cluster": (OWN, "b,10,9,60,1", "job b needs 9 replicas at once, and the cluster holds 8;"),
    "a job without replicas": (OWN, "b,10,0,60,1", "replicas is '0', and not a whole number from 1 on; the row"),
    "a name twice": (OWN, "a,10,2,60,1", "the name a is there already; the row is left out"),
    "a time that is none": (PHILLY, "yesterday,60,1,60,x", "timestamp is 'yesterday', and not such as 2017-10-09"),
    "more GPUs than there are": (PHILLY, "2017-10-09 08:00:00,60,16,1,x", "job row-3 needs 16 replicas at once, and"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_a_row_that_cannot_be_used_is_named_and_left_out(name: str, tmp_path: Path) -> None:
    head, row, want = BAD_ROWS[name]
    good = head.splitlines()[1].replace("a,", "z,", 1)
    path = tmp_path / "jobs.csv"
    path.write_text(f"{head}{row}\n{good}\n", encoding="utf-8")
    trace = read_trace(path, NODES, None)
    assert len(trace.jobs) == 2
    (complaint,) = trace.complaints[:1]
    assert complaint.startswith(f"jobs.csv line 3: {want}")


def test_rows_that_are_not_sorted_are_named_and_simulated_by_time(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(f"{OWN}b,50,1,60,1\nc,20,1,60,1\n", encoding="utf-8")
    trace = read_trace(path, NODES, None)
    assert [job.name for job in trace.jobs] == ["a", "c", "b"]
    assert trace.complaints == ("jobs.csv line 4: its time is before that of line 3; jobs are simulated by time",)


def test_a_row_of_philly_is_elastic_around_its_gpus_and_begins_at_the_first(tmp_path: Path) -> None:
    path = tmp_path / "philly.csv"
    path.write_text(f"{PHILLY}2017-10-09 07:01:00,100,2,200,x\n", encoding="utf-8")
    first, second = read_trace(path, NODES, None).jobs
    assert (first.submitted_at, second.submitted_at) == (0, 60)
    assert (second.least, second.replicas, second.most, second.work) == (1, 2, 4, 200)
    assert second.asks.gpus == 1


MEBIBYTE = b"x" * (1 << 20)


def test_a_line_of_100_mb_is_one_row_left_out(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    with path.open("wb") as file:
        file.write(OWN.encode())
        for _ in range(100):
            file.write(MEBIBYTE)
        file.write(b"\nz,5,2,60,1\n")
    tracemalloc.start()
    try:
        trace = read_trace(path, NODES, None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [job.name for job in trace.jobs] == ["a", "z"]
    assert trace.complaints == ("jobs.csv line 3: it has more than 65,536 bytes; the row is left out",)
    assert peak < 4 << 20, "it is not read into memory"


NO_TRACES = {
    "an empty file": ("", "is empty; its first line has to name columns"),
    "an unknown header": ("id,when\n1,2\n", "its header is of no known format; there are name,time,replicas,duration"),
    "bad rows alone": (OWN.replace("a,0,2", "a,0,99"), "no row is a job; jobs.csv line 2: job a needs 99 replicas"),
    "Pollux without its models": (
        "name,time,application,num_replicas,batch_size\nx,0,bert,1,12\n",
        "its jobs are applications of Pollux' artifact; name the folder that has a folder for each: --models DIR",
    ),
}


@pytest.mark.parametrize("name", NO_TRACES)
def test_a_file_that_is_no_trace_says_so(name: str, tmp_path: Path) -> None:
    text, want = NO_TRACES[name]
    path = tmp_path / "jobs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ScenarioError, match="^" + str(path)) as refused:
        read_trace(path, NODES, None)
    assert want in str(refused.value)


def application(folder: Path, **files: str) -> Path:
    """The models of one application, with other files than those that are sound."""
    sound = {
        "placements": "placement,local_bsz,step_time,sync_time\n1,1,0.1,0\n1,8,0.4,0\n",
        "scalability": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n2,2,1,0.1,0\n2,2,8,0.4,0\n",
        "validation-8": "progress,grad_sqr,grad_var\n10,1,1\n20,1,1\n",
    }
    (folder / "app").mkdir(parents=True)
    for name, text in (sound | files).items():
        (folder / "app" / f"{name}.csv").write_text(text, encoding="utf-8")
    return folder


POLLUX = "name,time,application,num_replicas,batch_size\nx,0,app,1,8\n"
BROKEN_MODELS = {
    "a word for a number": (
        {"placements": "placement,local_bsz,step_time,sync_time\n1,1,fast,0\n"},
        "placements.csv: column step_time is 'fast', and not a number",
    ),
    "a column that is missing": (
        {"validation-8": "progress,grad_sqr\n10,1\n"},
        "validation-8.csv: column grad_var is None, and not a number",
    ),
    "no rows": ({"validation-8": "progress,grad_sqr,grad_var\n"}, "app has no validation-*.csv with a row"),
}


@pytest.mark.parametrize("name", BROKEN_MODELS)
def test_a_model_that_cannot_be_read_is_named_by_its_file_and_column(name: str, tmp_path: Path) -> None:
    files, want = BROKEN_MODELS[name]
    path = tmp_path / "jobs.csv"
    path.write_text(POLLUX, encoding="utf-8")
    with pytest.raises(ScenarioError) as refused:
        read_trace(path, NODES, application(tmp_path / "models", **files))
    assert want in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_sound_model_is_read(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(POLLUX, encoding="utf-8")
    assert [job.name for job in read_trace(path, NODES, application(tmp_path / "models")).jobs] == ["x"]
