"""Each framework trains for real, by the manifest of its example: processes that find each other by what the operator
tells them, and whose loss falls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.frameworks.training import Json, Training, falls, need
from tests.support import fast_yaml as yaml

SITE = "lib/python3.11/site-packages"
TORCH = "debian/usr/lib/python3/dist-packages/torch"


@dataclass(frozen=True)
class Run:
    framework: str
    needs: tuple[str, ...]
    reports: str
    """The pod whose log has the losses."""
    steps: int
    says: str
    """In that log: that all were there."""


RUNS: dict[str, Run] = {
    "xgboost: three workers of one tracker": Run(
        "xgboost", (f"{SITE}/xgboost",), "xgboost-master-0", 20, "worker 0 of 3"
    ),
    "jax: one computation over three processes": Run(
        "jax", (f"{SITE}/jax",), "jax-worker-0", 40, "process 0 of 3, 3072 rows in all"
    ),
    "tensorflow: a chief and two workers, mirrored": Run(
        "tensorflow", (f"{SITE}/tensorflow",), "tensorflow-chief-0", 40, "3 replicas"
    ),
    "paddle: three trainers that share their gradients": Run(
        "paddle", (f"{SITE}/paddle",), "paddle-worker-0", 40, "trainer 0 of 3"
    ),
    "pytorch: DistributedDataParallel with gloo": Run("pytorch", (TORCH,), "pytorch-master-0", 40, "rank 0 of 3"),
}


@pytest.mark.parametrize("sentence", RUNS)
def test_it_trains(training: Training, sentence: str) -> None:
    run = RUNS[sentence]
    need(*run.needs)
    name = training.train(run.framework)["metadata"]["name"]
    assert training.ended(name) == "Succeed", training.story(name)
    log = training.log(run.reports)
    assert run.says in log, training.story(name)
    falls(log, run.steps)
    training.kubectl("delete", "aitj", name)


def test_mpi_runs_on_its_workers_when_they_are_ready(training: Training) -> None:
    """mpirun starts a process in each worker, by the agent of the example. What the workers say of themselves is not
    believed: their own logs do not have it, the launcher's has, with the host on which each runs."""
    need(f"{SITE}/mpi4py", "bin/mpirun")
    training.kubectl("create", "secret", "generic", "mpi-agent", "--from-literal=key=0123456789abcdef", check=False)
    name = training.train("mpi")["metadata"]["name"]
    assert training.ended(name) == "Succeed", training.story(name)
    log = training.log("mpi-launcher-0")
    assert {line for line in log.splitlines() if line.startswith("rank ")} == {
        "rank 0 of 2 on mpi-worker-0",
        "rank 1 of 2 on mpi-worker-1",
    }, training.story(name)
    falls(log, 40)
    training.kubectl("delete", "aitj", name)


def other_pod(index: int) -> Json:
    """Three of a node's four CPUs."""
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", "36000"],
        "resources": {"requests": {"cpu": "3"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"other-{index}"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def test_torchrun_grows_with_the_room_and_outlives_a_killed_pod(training: Training, tmp_path: Path) -> None:
    """Two pods run while others have the room; the autoscaler makes them four when these are gone; one is killed with
    -9 and comes back; and the loss falls from the first step to the last, across all of it."""
    need(TORCH)
    training.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([other_pod(i) for i in range(2)]))
    name = training.train("pytorch", "elastic.yaml", STEPS="150", STATE_FOLDER=str(tmp_path))["metadata"]["name"]
    first = f"{name}-worker-0"
    training.until_log(first, lambda log: " of 2\n" in log, "two train")
    before = training.running_uids(name)
    training.kubectl("delete", "pod", "other-0", "other-1", "--now")
    training.until_log(first, lambda log: len(re.findall(r"step .* of 4$", log, re.MULTILINE)) > 5, "four train")
    assert before.items() <= training.running_uids(name).items(), "who trained goes on in the same pod"
    victim = training.pod_process(name, "worker", 3)
    assert victim is not None
    told = len(training.log(first))
    victim.kill()
    training.until_log(first, lambda log: "rank 0 of" in log[told:], "a new round")
    assert training.ended(name) == "Succeed", training.story(name)
    status = training.status(name)
    assert status["restartCounts"]["worker"]["application"] >= 1
    assert {r["from"] for r in status["scaleRecords"]} >= {2}
    assert "autoscaler" in str(status["scaleRecords"])
    falls(training.log(first), 150)
