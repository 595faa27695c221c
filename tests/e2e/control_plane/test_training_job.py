"""The digits training as an EDL job on Kubernetes itself, its manifest as it stands: real processes under a ReplicaSet
each for master and parameter servers and a batch Job for the trainers, found by the names of services."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.e2e.stack import Json, LocalStack, until
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE_SECONDS
from tjstack import processes
from tjstack.services import kubectl_path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods are processes, found in /proc")
NAME = "digits-edl"
JOB = f"/apis/paddlepaddle.org/v1/namespaces/default/trainingjobs/{NAME}"


def trainers(stack: LocalStack) -> dict[str, Json]:
    """Those that run, by the number that they carry; two with one number are a failure."""
    run = [
        p
        for p in stack.all_pods(labelSelector=f"paddle-job={NAME}")
        if p["status"].get("phase") == "Running" and not p["metadata"].get("deletionTimestamp")
    ]
    found = {p["metadata"]["labels"].get("replica-index", p["metadata"]["name"]): p for p in run}
    assert len(found) == len(run), [p["metadata"]["labels"] for p in run]
    return found


def explain(stack: LocalStack) -> str:
    return json.dumps(stack.look(JOB))[-3000:] + stack.output[-2000:]


def process_of(stack: LocalStack, pod: Json) -> psutil.Process:
    """Its program. By name: a pod of a batch Job starts before it has a number."""
    found = processes.program(stack.paths.cluster_data, POD_NAME=pod["metadata"]["name"])
    assert found is not None, pod["metadata"]["name"]
    return found


@contextmanager
def master_log(stack: LocalStack, told: Path) -> Iterator[subprocess.Popen[bytes]]:
    """kubectl follows the master's log into `told`, until the master ends."""

    def master_runs() -> bool:
        """Else kubectl has nothing to follow, and ends."""
        text = stack.kubectl(
            "get", "pods", "-l", f"paddle-job-master={NAME}", "-o", "jsonpath={.items[*].status.phase}"
        )
        return text == "Running"

    until("the master runs", master_runs, context=lambda: explain(stack))
    command = [str(kubectl_path()), "--kubeconfig", str(stack.paths.kubeconfig), "logs", "-f", "--tail=-1"]
    with told.open("wb") as output:
        master = subprocess.Popen(
            [*command, "-l", f"paddle-job-master={NAME}"], stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield master
    finally:
        master.kill()
        master.wait()


def test_the_digits_training_loses_a_trainer_grows_and_comes_to_its_accuracy(stack: LocalStack, tmp_path: Path) -> None:
    stack.kubectl("apply", "-f", str(ROOT / "examples/digits/training-job.yaml"))
    until("it runs", lambda: {"0", "1"} <= trainers(stack).keys(), context=lambda: explain(stack))

    told = tmp_path / "told"
    with master_log(stack, told) as master:
        until("it trains", lambda: "epoch 1/20" in told.read_text(), context=told.read_text)
        before = trainers(stack)
        processes.send(process_of(stack, before["0"]), signal.SIGKILL)

        def replaced() -> bool:
            now = trainers(stack)
            return "0" in now and now["0"]["metadata"]["uid"] != before["0"]["metadata"]["uid"]

        until("another has the number of the trainer that was killed", replaced, context=lambda: explain(stack))
        until(
            "the autoscaler has made two trainers six",
            lambda: sorted(trainers(stack)) == list("012345"),
            context=lambda: explain(stack),
        )
        # By UID: the autoscaler may have begun before, and its newest pods had no number yet.
        now = {p["metadata"]["uid"] for p in trainers(stack).values()}
        stay = {p["metadata"]["uid"] for n, p in before.items() if n != "0"}
        assert stay <= now, "no other is restarted"
        until(
            "it succeeds",
            lambda: (stack.look(JOB) or {}).get("status", {}).get("phase") == "Succeed",
            context=lambda: explain(stack) + told.read_text(),
        )
        master.wait(timeout=PATIENCE_SECONDS)
    assert float(re.findall(r"^accuracy (0\.\d+)$", told.read_text(), re.MULTILINE)[0]) >= 0.95

    status = (stack.look(JOB) or {})["status"]
    assert (status["phase"], status["released"]) == ("Succeed", True)
    assert {k: v for k, v in status["restartCounts"]["trainer"].items() if v} == {"application": 1}
    assert status["failures"][0]["exitCode"] == 137
    assert {r["reason"].partition(":")[0] for r in status["scaleRecords"]} == {"autoscaler"}
    assert stack.pods(NAME) == {}
