"""`tj top`: what is said of nodes, jobs, the queue and workers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.cli.conftest import TypedAt
from tests.unit.tjworker.cli.test_room import node, pod
from tjworker.api.status import TrainerStatus
from tjworker.cli.load import (
    MAX_JOBS,
    MAX_NODES,
    MAX_WORKERS,
    cluster_lines,
    job_lines,
    job_progress,
    worker_lines,
    workers,
)
from tjworker.cli.room import room
from tjworker.cli.top import _as_object
from tjworker.settings import load_settings
from tjworker.store.work_queue import QueueStats

GPU = "nvidia.com/gpu"


def with_gpus(raw: dict[str, Any], has: int) -> dict[str, Any]:
    raw["status"]["allocatable"][GPU] = str(has)
    return raw


def test_nodes_stand_with_what_is_asked_of_them_the_fullest_first() -> None:
    found = room(
        [node("a"), node("b"), node("c", "False"), node("d", unschedulable=True)],
        [pod("digits", 0, where="b"), pod("digits", 1, where="b"), pod("digits", 2, where="", phase="Pending")],
    )
    assert cluster_lines(found, (GPU,)) == [
        "Cluster: 2 of 4 nodes take pods; requests of pods and what the nodes have",
        "  NODE   STATE             CPU            MEMORY (GB)      PODS",
        "  b      ready             2 of 4 (50%)   0 of 8.59 (0%)   2 of 110",
        "  a      ready             0 of 4 (0%)    0 of 8.59 (0%)   0 of 110",
        "  c      not ready         0 of 4 (0%)    0 of 8.59 (0%)   0 of 110",
        "  d      ready, cordoned   0 of 4 (0%)    0 of 8.59 (0%)   0 of 110",
        "  1 pods without a node ask for CPU 1",
    ]


def test_gpus_have_a_column_where_there_are_some() -> None:
    asks = pod("digits", 0)
    asks["spec"] = {"nodeName": "a", "containers": [{"name": "x", "resources": {"limits": {GPU: "2", "cpu": "1"}}}]}
    shown = cluster_lines(room([with_gpus(node("a"), 8)], [asks]), (GPU,))
    assert shown[1].split() == ["NODE", "STATE", "CPU", "MEMORY", "(GB)", "GPU", "PODS"]
    assert "2 of 8 (25%)" in shown[2]


def test_gpus_of_two_kinds_are_summed() -> None:
    """A node has one kind as a rule; its column is for all of them."""
    other = "amd.com/gpu"
    nodes = [with_gpus(node("a"), 8), node("b")]
    nodes[1]["status"]["allocatable"][other] = "4"
    asks = pod("digits", 0, where="b")
    asks["spec"]["containers"] = [{"name": "x", "resources": {"limits": {other: "3", "cpu": "2"}}}]
    shown = cluster_lines(room(nodes, [asks]), (GPU, other))
    assert [("3 of 4 (75%)" in line, "0 of 8 (0%)" in line) for line in shown[2:4]] == [(True, False), (False, True)]
    assert job_lines(room(nodes, [asks]), {})[2].split()[-2:] == ["3", "1"]


def test_jobs_stand_with_what_their_pods_ask_for() -> None:
    other = pod("x", 0) | {"metadata": {"name": "web", "namespace": "default"}}
    found = room([node()], [pod("small", 0), pod("big", 0), pod("big", 1), other, other, other])
    assert job_lines(
        found,
        {
            "default/big": job_progress(
                {
                    "phase": "Running",
                    "active": "2/2",
                    "trainerStatus": {"progressPercentage": 41, "estimatedRemainingSeconds": 90},
                }
            )
        },
    ) == [
        "Jobs: what their pods ask for",
        "  JOB             PHASE     ACTIVE   DONE   LEFT   CPU   MEMORY (GB)   GPU   PODS",
        "  default/big     Running   2/2      41%    90s    2     0             0     2",
        "  default/small   -         -        -      -      1     0             0     1",
        "  (other pods)    -         -        -      -      3     0             0     3",
    ]


def test_a_cluster_without_pods() -> None:
    assert job_lines(room([node()], []), {}) == ["Jobs: no pod asks for anything"]


STATS: dict[str, Any] = {
    "w1@vm": {"pool": {"max-concurrency": 2}, "uptime": 90, "total": {"tjworker.reconcile": 7, "tjworker.resync": 1}},
    "w2@vm": {"pool": {"max-concurrency": 1}, "uptime": 30, "total": {}},
}
ACTIVE: dict[str, Any] = {
    "w1@vm": [],
    "w2@vm": [{"name": "tjworker.reconcile", "args": ["a.b/default/digits"]}],
    "w3@vm": [{"name": "tjworker.resync", "args": []}],
}


def test_workers_stand_with_what_they_do() -> None:
    assert worker_lines(workers(STATS, ACTIVE)) == [
        "Workers: 2 of 3 slots are busy",
        "  WORKER   BUSY     TASKS   UP    WORKS ON",
        "  w2@vm    1 of 1   0       30s   a.b/default/digits",
        "  w3@vm    1 of 0   0       0s    resync",
        "  w1@vm    0 of 2   8       90s   -",
    ]
    assert worker_lines([]) == ["Workers: none answers; `tj doctor` says what to do"]


def test_of_very_many_the_first_are_shown() -> None:
    found = room([node(f"n{i}") for i in range(MAX_NODES + 3)], [pod(f"j{i}", 0) for i in range(MAX_JOBS + 2)])
    assert "  ... and 3 more" in cluster_lines(found, ())
    assert job_lines(found, {})[-1] == "  ... and 2 more"
    many: dict[str, list[Any]] = {f"w{i}@vm": [] for i in range(MAX_WORKERS + 1)}
    assert worker_lines(workers({}, many))[-1] == "  ... and 1 more"


@pytest.fixture
def settings_anew() -> Iterator[None]:
    """A process reads them once."""
    load_settings.cache_clear()
    yield
    load_settings.cache_clear()


@pytest.mark.usefixtures("settings_anew")
def test_the_command_shows_the_cluster_also_where_redis_is_away(
    typed_at: TypedAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TJ_REDIS_URL", "redis://:geheim@127.0.0.1:1/0")
    typed_at.add(make_job("digits").workers(1))
    done = typed_at.tj("top")
    assert done.exit_code == 0, done.output
    assert "Cluster: 0 of 0 nodes take pods" in done.stdout
    assert "Queue and workers: Redis at redis://127.0.0.1:1/0 cannot be reached" in done.stdout
    assert "geheim" not in done.output
    found = json.loads(typed_at.tj("top", "-o", "json").stdout)
    assert (found["queue"], found["workers"], "cannot be reached" in found["error"]) == (None, [], True)


@pytest.mark.usefixtures("settings_anew")
def test_as_an_object_it_has_every_field(typed_at: TypedAt, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = QueueStats(queued=1, delayed=2, running=3, oldest_seconds=4.5, unfinished=5, failing=6)
    told = TrainerStatus(progressPercentage=41, estimatedRemainingSeconds=90)
    job = {"digits": job_progress({"phase": "Running", "trainerStatus": told.model_dump(by_alias=True)})}
    found = room([with_gpus(node("a", unschedulable=True), 8)], [pod("digits", 0), pod("digits", 1, where="")])
    asked = {"cpu_milli": 1000, "memory_bytes": 0, "cpu_limit_milli": 0, "memory_limit_bytes": 0, "pods": 1}
    jobs = {f"default/{name}": one for name, one in job.items()}
    assert _as_object(found, jobs, stats, workers(STATS, ACTIVE)[:1], "") == {
        "nodes": {
            "a": {
                "ready": "True",
                "unschedulable": True,
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", GPU: "8"},
            }
        },
        "requests": {"a": {**asked, "extended": ()}, "-": {**asked, "extended": ()}},
        "jobs": {
            "default/digits": {
                "phase": "Running",
                "requests": {**asked, "cpu_milli": 2000, "pods": 2, "extended": ()},
                "done": "41%",
                "left": "90s",
            }
        },
        "queue": {"queued": 1, "delayed": 2, "running": 3, "oldest_seconds": 4.5, "unfinished": 5, "failing": 6},
        "workers": [{"name": "w1@vm", "slots": 2, "uptime_seconds": 90.0, "tasks": 8, "runs": ()}],
        "error": "",
    }
    module = importlib.import_module("tjworker.cli.top")  # the package has the command of that name
    monkeypatch.setattr(module, "operator", lambda settings: (stats, workers(STATS, ACTIVE), ""))
    shown = typed_at.tj("top").stdout
    line = "Queue: 1 queued, 3 running, 2 delayed, 6 failing; 5 unfinished jobs; the oldest has waited for 4.5 s"
    assert line in shown
    assert "Workers: 2 of 3 slots are busy" in shown
