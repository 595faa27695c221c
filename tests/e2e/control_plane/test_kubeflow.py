"""A PyTorchJob of Kubeflow on Kubernetes itself: its manifest, kubectl, and real processes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.e2e.stack import Json, LocalStack, until

pytestmark = pytest.mark.skipif(
    os.environ.get("TJ_REAL_KUBERNETES", "") not in ("", "1.36", "1.36.3"), reason="tj up runs the default version"
)
PROGRAM = """
import os, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "meets at", os.environ["MASTER_ADDR"], flush=True)
time.sleep(3600 if os.environ["RANK"] != "0" else 5)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    settings = {name: value for name, value in os.environ.items() if name == "TJ_CACHE_DIR"}
    settings["TJ_KINDS"] = "pytorchjobs.kubeflow.org"
    one = LocalStack(tmp_path_factory.mktemp("kubeflow") / "state", "--control-plane", "real", **settings)
    try:
        one.start()
        yield one
    finally:
        one.clear()


def manifest() -> Json:
    container = {"name": "pytorch", "image": "none", "command": ["python", "-S", "-c", PROGRAM]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    roles = {name: {"replicas": 1, "restartPolicy": "OnFailure", "template": template} for name in ("Master", "Worker")}
    spec = {"runPolicy": {"cleanPodPolicy": "Running"}, "pytorchReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "simple"}, "spec": spec}


def test_a_pytorchjob_lives_as_its_users_know_it(stack: LocalStack) -> None:
    stack.kubectl("apply", "-f", "-", stdin=json.dumps(manifest()))
    stack.kubectl("wait", "--for=condition=Running", "pytorchjob/simple", "--timeout=200s")
    told = json.loads(stack.kubectl("get", "pytorchjob", "simple", "-o", "json"))["status"]
    assert {role: counts["active"] for role, counts in told["replicaStatuses"].items()} == {"Master": 1, "Worker": 1}
    found = stack.kubectl("get", "pods", "-l", "training.kubeflow.org/job-role=master", "-o", "name")
    assert found.split() == ["pod/simple-master-0"]
    stack.kubectl("wait", "--for=condition=Succeeded", "pytorchjob/simple", "--timeout=200s")
    assert "Succeeded" in stack.kubectl("get", "pytorchjobs")
    assert "rank 0 of 2 meets at simple-master-0" in stack.kubectl("logs", "simple-master-0")
    left = stack.kubectl("get", "pods", "-l", "training.kubeflow.org/job-name=simple", "-o", "name")
    assert left.split() == ["pod/simple-master-0"], "cleanPodPolicy Running has taken the worker"
    stack.kubectl("delete", "pytorchjob", "simple")
    selector = "training.kubeflow.org/job-name=simple"
    until("its pods are gone", lambda: not stack.all_pods(labelSelector=selector), context=lambda: stack.output[-2000:])
