"""Plays every case of `cases/` on the local cluster and, if there is one, on a real control plane.

`TJ_REAL_KUBECONFIG` names the kubeconfig of the real one (cluster-admin). It needs no nodes: the suite starts two
scripted ones. Each case has its own namespace, so that cases may run concurrently.
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster_tests.contract.api.doors import NODES, Door, LocalDoor, RealDoor
from localcluster_tests.contract.api.play import play
from localcluster_tests.contract.api.script import Case, load

CASES = {case.sentence: case for case in load()}
REAL_KUBECONFIG = os.environ.get("TJ_REAL_KUBECONFIG", "")
RECORDED_ON_MINOR = 36
START_SECONDS = 180.0


@pytest.fixture(scope="session")
def real_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The real control plane with nodes; those of this worker process are gone at the end."""
    kubeconfig, prefix = Path(REAL_KUBECONFIG), f"contract-{uuid.uuid4().hex[:6]}"
    door = RealDoor(kubeconfig)
    minor = json.loads(door.send("GET", "/version", b"", {}).body)["minor"]
    if int(minor.rstrip("+")) != RECORDED_ON_MINOR:
        pytest.skip(f"answers were recorded on 1.{RECORDED_ON_MINOR}, this is 1.{minor}")
    log = tmp_path_factory.mktemp("kubelets") / "log"
    options = f"--agent fake --nodes {NODES} --node-prefix {prefix}".split()
    command = [sys.executable, "-m", "localcluster.kubelet", "--kubeconfig", str(kubeconfig), *options]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as kubelets:
        try:
            assert door.until(lambda: _ready_nodes(door, prefix) == NODES, START_SECONDS), log.read_text()
            yield kubeconfig
        finally:
            kubelets.terminate()
            kubelets.wait(120)
            for number in range(NODES):
                door.send("DELETE", f"/api/v1/nodes/{prefix}-{number}", b"", {})
            door.close()


def _ready_nodes(door: Door, prefix: str) -> int:
    nodes = json.loads(door.send("GET", "/api/v1/nodes", b"", {}).body)["items"]
    return sum(
        node["metadata"]["name"].startswith(prefix)
        and not node["spec"].get("taints")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
        for node in nodes
    )


@pytest.fixture(
    params=[
        "local",
        pytest.param(
            "real",
            marks=[
                pytest.mark.real,
                pytest.mark.skipif(not REAL_KUBECONFIG, reason="TJ_REAL_KUBECONFIG names no kubeconfig"),
            ],
        ),
    ]
)
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    opened: Door = LocalDoor() if request.param == "local" else RealDoor(request.getfixturevalue("real_kubeconfig"))
    yield opened
    opened.close()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_both_clusters_answer_alike(case: Case, door: Door) -> None:
    want: list[str] = []
    got: list[str] = []
    for step, answer in play(case, door):
        want += [step.text, f"= {step.want}"]
        got += [step.text, f"= {answer}"]
    if want != got:
        difference = "\n".join(difflib.unified_diff(want, got, "kube-apiserver", "this cluster", lineterm="", n=30))
        pytest.fail(f"{case.file}.txt:{case.line}: {case.sentence}\n{difference}", pytrace=False)


def test_there_are_enough_cases_and_each_step_has_its_answer() -> None:
    assert len(CASES) >= 150
    unanswered = [
        f"{case.file}.txt:{step.line}" for case in CASES.values() for step in case.steps if step.want in ("", "?")
    ]
    assert not unanswered
