"""Kubeflow's own Python client (kubeflow-training, unmodified) against a local stack of real processes that serves its
kinds: `make test-sdk`, which makes the client's environment once.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stack import CALL_SECONDS, LocalStack
from tests.support.paths import ROOT

PYTHON = ROOT / ".venv/sdk/bin/python"
pytestmark = [
    pytest.mark.xdist_group("stack"),
    pytest.mark.skipif("TJ_SDK" not in os.environ, reason="`make test-sdk` runs it, in an environment of its own"),
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    kinds = "pytorchjobs.kubeflow.org,tfjobs.kubeflow.org,mpijobs.kubeflow.org"
    made = LocalStack(tmp_path_factory.mktemp("sdk") / "state", TJ_KINDS=kinds)
    try:
        made.start()
        yield made
    finally:
        made.clear()


def session(stack: LocalStack, kind: str) -> dict[str, Any]:
    words = [str(PYTHON), str(Path(__file__).parent / "session.py"), str(stack.paths.kubeconfig), kind]
    done = subprocess.run(words, capture_output=True, text=True, timeout=CALL_SECONDS * 3, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return seen


@pytest.mark.parametrize(("kind", "first"), [("PyTorchJob", "Master"), ("TFJob", "Chief"), ("MPIJob", "Launcher")])
def test_a_session_of_its_user(stack: LocalStack, kind: str, first: str) -> None:
    seen = session(stack, kind)
    master = f"good-{first.lower()}-0"
    assert seen["running"] is True
    assert seen["conditions"][0] == ["Created", "True", f"{kind}Created"]
    assert seen["conditions"][-1] == ["Succeeded", "True", f"{kind}Succeeded"]
    assert ["Running", "False", f"{kind}Running"] in seen["conditions"]
    assert (seen["succeeded"], seen["failed"]) == ([True, False], [False, True])
    assert seen["times"] == ["datetime", "datetime"]
    assert seen["replicas"][first] == 1
    assert seen["pods"] == sorted([master, "good-worker-0"])
    assert (seen["master"], seen["workers"]) == ([master], ["good-worker-0"])
    assert f"hello from {master}" in seen["logs"][master]
    assert seen["listed"] == ["good"]
    assert "exited with code 3" in seen["why"]
    assert seen["left"] == []
