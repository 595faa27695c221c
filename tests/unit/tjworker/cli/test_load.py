"""`tj top`: what is said of nodes, jobs, the queue and workers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.builders import make_job
from tests.unit.tjworker.cli.conftest import TypedAt
from tests.unit.tjworker.cli.test_room import node, pod
from tjworker.cli.load import cluster_lines, job_lines, job_progress
from tjworker.cli.room import room
from tjworker.settings import load_settings

GPU = "nvidia.com/gpu"


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
