"""The Python client of Kubeflow Trainer v2 (`kubeflow`) and transformers' KubeflowCallback, both unmodified, against a
local stack of real processes that serves TrainJobs, on the local cluster and on the real control plane: `make
test-sdk`, which makes their environment once. The real control plane is skipped where it is not built (`make
control-plane`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.binaries import missing
from controlplane.releases import release
from tests.e2e.stack import CALL_SECONDS, LocalStack
from tests.support.paths import ROOT

PYTHON = ROOT / ".venv/sdk-trainer/bin/python"
pytestmark = [
    pytest.mark.xdist_group("stack"),
    pytest.mark.skipif("TJ_SDK" not in os.environ, reason="`make test-sdk` runs it, in an environment of its own"),
]


@pytest.fixture(scope="module", params=["local", "real"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    settings = {name: value for name, value in os.environ.items() if name == "TJ_CACHE_DIR"}
    if request.param == "real" and missing(release()):
        pytest.skip("the real control plane is not built: make control-plane")
    plane = ("--control-plane", "real") if request.param == "real" else ()
    settings["TJ_KINDS"] = "trainjobs.trainer.kubeflow.org"
    made = LocalStack(tmp_path_factory.mktemp("sdk") / "state", *plane, **settings)
    try:
        made.start()
        yield made
    finally:
        made.clear()


def test_a_session_of_its_user(stack: LocalStack, tmp_path: Path) -> None:
    torchrun = tmp_path / "torchrun"
    torchrun.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n', encoding="utf-8")
    torchrun.chmod(0o755)
    words = [str(PYTHON), str(Path(__file__).parent / "trainer_session.py"), str(stack.paths.kubeconfig), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=CALL_SECONDS * 3, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout.strip().splitlines()[-1])
    assert seen["runtimes"] == ["torch-distributed", "torch-with-data"]
    assert (seen["running"], seen["done"], seen["bad"]) == ("Running", "Complete", "Failed")
    assert seen["steps"] == ["node-0", "node-1"]
    assert seen["followed"] == [f"step {i} of node 0 of 2" for i in range(6)]
    assert seen["other_node"] == [f"step {i} of node 1 of 2" for i in range(6)]
    assert ["TrainJob", "Running"] in seen["events"]
    assert [one["reason"] for one in seen["why"]] == ["FailedJobs"]
    assert "exited with code 3" in seen["why"][0]["message"]
    assert seen["data"] == {"dataset-initializer": "Succeeded", "node-0": "Succeeded"}
    assert seen["data_log"] == ["data is there"]
    assert seen["reported"] == ["40 True", "100 True"]
    assert seen["progress"]["progressPercentage"] == 100
    assert seen["progress"]["metrics"] == [{"name": "loss", "value": "0.5"}]
    assert seen["called_back"]["progressPercentage"] == 100
    assert seen["called_back"]["metrics"] == [{"name": "loss", "value": "0.5"}]
    assert (seen["listed"], seen["left"]) == (5, [])
