"""`tj simulate`: what it prints, what it refuses, and what it says of a live cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.support.paths import ROOT
from tests.unit.tjworker.cli.conftest import TypedAt
from tjworker.api import labels
from tjworker.api.kinds.aitrainingjob import RESOURCE
from tjworker.api.resources import NODES, PODS
from tjworker.api.status import SpeedRow, TrainerStatus

EXAMPLE = ROOT / "examples/simulation/scenario.yaml"
CSV = "name,time,replicas,duration,min,max,gpus\na,0,2,600,1,8,1\nb,60,4,600,1,8,1\n"


def test_the_example_compares_policies_in_a_table(typed_at: TypedAt) -> None:
    done = typed_at.tj("simulate", str(EXAMPLE), "--policy", "off", "--policy", "fulfillment")
    assert done.exit_code == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split() == [
        *("POLICY", "WAITING", "COMPLETION", "P95", "DONE", "UTILISATION", "JAIN", "MOVES", "PAUSES", "RESTARTS")
    ]
    assert [row.split()[0] for row in rows] == ["off", "fulfillment"]
    assert all(" 6/6 " in row for row in rows)


def test_json_has_the_mean_completion_of_each_policy_and_is_the_same_each_time(
    typed_at: TypedAt, tmp_path: Path
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(CSV, encoding="utf-8")
    asked = ("simulate", "--trace", str(path), "--nodes", "1", "--gpus", "4", "--policy", "off", "--policy", "fair")
    done = typed_at.tj(*asked, "-o", "json")
    assert done.exit_code == 0, done.stderr
    policies = json.loads(done.stdout)["policies"]
    # a: 30 s of start, 600 s. b: 30 s, 540 s with two replicas, then 30 s of rescaling and (2400 - 1080) / 4 s.
    assert policies["off"]["completion_seconds"]["mean"] == (630 + 30 + 540 + 30 + 330) / 2
    assert policies["fair"]["jobs_done"] == 2
    assert policies["fair"]["moves"] > policies["off"]["moves"] == 0
    assert typed_at.tj(*asked, "-o", "json").stdout == done.stdout


NODE = "nodes: [{cpu: 4}]\n"
REFUSED = {
    "a field that does not exist": (NODE + "job: []\n", "job: Extra inputs are not permitted"),
    "a quantity": ("nodes: [{cpu: lots}]\n", "nodes.0: 'lots' is no quantity such as 500m, 2 or 1.5Gi"),
    "bounds": (
        NODE + "jobs: [{name: a, requests: {cpu: 1}, min: 3, max: 2, work: 1}]\n",
        "jobs.0: min 3, replicas 1 and max 2 are not in this order",
    ),
    "an endless job": (
        NODE + "jobs: [{name: a, requests: {cpu: 1}}]\n",
        "until: a job without work trains for ever; set the second at which the simulation ends",
    ),
    "a node that is not there": (
        NODE + "nodeEvents: [{at: 1, node: x}]\n",
        "nodeEvents.0.node: x does not exist; the first node is node",
    ),
    "an end beyond a year": (NODE + "until: 1.0e+18\n", "until: Input should be less than or equal to 31622400"),
    "more pods than fit into memory": (
        NODE + "services: [{name: s, requests: {cpu: 0}, replicas: {0: 1000000000}}]\n",
        "services.0.replicas.0: Input should be less than or equal to 100000",
    ),
    "more nodes than are simulated": (
        "nodes: [{name: a, count: 10000, cpu: 1}, {name: b, cpu: 1}]\n",
        "nodes: there are 10001, and at most 10000 are simulated",
    ),
    "more jobs than are simulated": (
        NODE + "jobs: [{name: a, count: 10000, requests: {cpu: 1}, work: 1}, {name: b, requests: {cpu: 1}, work: 1}]\n",
        "jobs: there are 10001, and at most 10000 are simulated",
    ),
    "a list": ("- 1\n", "it is not a mapping with nodes and jobs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_scenario_that_cannot_be_used_is_one_line_that_names_the_field(
    name: str, typed_at: TypedAt, tmp_path: Path
) -> None:
    text, want = REFUSED[name]
    path = tmp_path / "scenario.yaml"
    path.write_text(text, encoding="utf-8")
    done = typed_at.tj("simulate", str(path))
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"tj: {path}: {want}\n")


WRONG = {
    "nothing to simulate": ((), "name one of SCENARIO, --trace FILE and --from-cluster"),
    "a trace's option": (("x.yaml", "--gpus", "4"), "--models, --nodes, --gpus and --jobs belong to --trace"),
    "live jobs without progress": (("--from-cluster", "--no-progress"), "--no-progress belongs to SCENARIO or --trace"),
    "a picture in a folder that is not there": (("x.yaml", "--plot", "none/x.svg"), "there is no folder none"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_use_is_named(name: str, typed_at: TypedAt) -> None:
    args, want = WRONG[name]
    done = typed_at.tj("simulate", *args)
    assert done.exit_code == 2
    assert want in done.stderr


NOT_READ = {
    "a scenario that is not there": (("none.yaml",), None, "none.yaml: No such file or directory"),
    "an empty scenario": (("FILE",), b"", "has 0 documents; a scenario is one"),
    "a trace that is not there": (("--trace", "none.csv"), None, "none.csv: No such file or directory"),
    "a trace of an unknown format": (("--trace", "FILE"), b"id;when\n1;2\n", "its header is of no known format"),
    "models that are not there": (
        ("--trace", "FILE", "--models", "none"),
        b"name,time,application,num_replicas,batch_size\nx,0,bert,1,12\n",
        "--models none: there is no such folder",
    ),
}


@pytest.mark.parametrize("name", NOT_READ)
def test_what_cannot_be_read_is_one_line_that_names_the_file(name: str, typed_at: TypedAt, tmp_path: Path) -> None:
    args, content, want = NOT_READ[name]
    file = tmp_path / "input"
    if content is not None:
        file.write_bytes(content)
    done = typed_at.tj("simulate", *(str(file) if arg == "FILE" else arg for arg in args))
    assert (done.exit_code, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert want in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_plot_is_drawn_the_same_each_time(typed_at: TypedAt, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawn = []
    for name in ("a.svg", "b.svg"):
        done = typed_at.tj("simulate", str(EXAMPLE), "--policy", "off", "--plot", str(tmp_path / name))
        assert done.exit_code == 0, done.stderr
        drawn.append((tmp_path / name).read_bytes())
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(b"<?xml")


def live(typed_at: TypedAt) -> None:
    """Two jobs on a node of eight CPUs: one runs with two trainers, and has told how it stands; one waits whole."""
    allocatable = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    body = {"metadata": {"name": "n"}, "status": {"allocatable": allocatable, "conditions": ready}}
    typed_at.api.create(NODES, "", body)
    rows = [SpeedRow(replicas=n, nodes=1, rate=100.0 * n, count=9, last_seen=AT) for n in (1, 2)]
    told = TrainerStatus(progress_percentage=50, estimated_remaining_seconds=1200, last_updated_time=AT)
    trains = make_job("trains").role("trainer", 2, least=1, most=5, edl="Auto", template=ONE_CPU)
    waits = make_job("waits").role("trainer", 1, least=1, most=5, edl="Auto", template=ONE_CPU)
    typed_at.add(
        trains.status(phase="Running", speed=tuple(rows), trainer_status=told, start_running_time=AT),
        waits.status(phase="Creating"),
    )
    made = {job["metadata"]["name"]: job for job in typed_at.api.list_page(RESOURCE, "default", limit=10).items}
    for name, index, node in (("trains", 0, "n"), ("trains", 1, "n"), ("waits", 0, "")):
        typed_at.make(PODS, pod(made[name], index, node))


AT = "2001-09-09T01:00:00Z"
ONE_CPU = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}


def pod(job: Any, index: int, node: str) -> dict[str, Any]:
    name = job["metadata"]["name"]
    its = {labels.JOB_NAME: name, labels.REPLICA_NAME: "trainer", labels.REPLICA_INDEX: str(index)}
    return {
        "metadata": {
            "name": f"{name}-trainer-{index}",
            "namespace": "default",
            "labels": its | {labels.JOB_UID: job["metadata"]["uid"]},
        },
        "spec": {**ONE_CPU["spec"], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running" if node else "Pending"},
    }


def test_from_cluster_plays_on_from_the_live_jobs_and_changes_nothing(typed_at: TypedAt) -> None:
    live(typed_at)
    before = typed_at.api.list_page(RESOURCE, "default", limit=10).items
    asked = ("simulate", "--from-cluster", "--policy", "fulfillment", "--policy", "fair", "-o", "json")
    done = typed_at.tj(*asked)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.splitlines() == [
        "tj: 1 of 2 jobs report no remaining time: they train until the end",
        "tj: 1 of 2 jobs report no speed: each replica is taken to add the same",
    ]
    policies = json.loads(done.stdout)["policies"]
    for told in policies.values():
        jobs = {job["name"]: job for job in told["jobs"]}
        assert set(jobs) == {"trains", "waits"}
        assert jobs["trains"]["started"] == 0, "it runs already"
        # 1,200 s with two trainers are 600 s with four, of which it is told before long; and a pause for each move.
        assert 600 < jobs["trains"]["ended"] < 1200
        assert jobs["waits"]["ended"] is None
        assert told["ended_at_seconds"] == 3600
        assert isinstance(told["now"], list)
    assert typed_at.api.list_page(RESOURCE, "default", limit=10).items == before


def test_from_cluster_shows_the_next_moves_and_the_table(typed_at: TypedAt) -> None:
    live(typed_at)
    done = typed_at.tj("simulate", "--from-cluster", "--policy", "fair", "--until", "60")
    assert done.exit_code == 0, done.stderr
    first, *_, head, row = done.stdout.splitlines()
    assert first.startswith("fair, next run: ")
    assert head.startswith("POLICY")
    assert row.startswith("fair ")
