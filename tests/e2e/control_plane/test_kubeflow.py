"""A PyTorchJob and MPIJobs of Kubeflow on Kubernetes itself: their manifests, kubectl, and real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.e2e.stack import Json, LocalStack, until

PROGRAM = """
import os, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "meets at", os.environ["MASTER_ADDR"], flush=True)
while os.environ["RANK"] != "0" or not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
"""


def manifest(finish: Path) -> Json:
    """Its master ends once that file is there."""
    container = {"name": "pytorch", "image": "none", "command": ["python", "-S", "-c", PROGRAM, str(finish)]}
    template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
    roles = {name: {"replicas": 1, "restartPolicy": "OnFailure", "template": template} for name in ("Master", "Worker")}
    spec = {"runPolicy": {"cleanPodPolicy": "Running"}, "pytorchReplicaSpecs": roles}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "simple"}, "spec": spec}


def test_a_pytorchjob_lives_as_its_users_know_it(stack: LocalStack, tmp_path: Path) -> None:
    def active() -> dict[str, int]:
        told = json.loads(stack.kubectl("get", "pytorchjob", "simple", "-o", "json"))["status"]
        return {role: counts.get("active", 0) for role, counts in told["replicaStatuses"].items()}

    finish = tmp_path / "finish"
    stack.kubectl("apply", "-f", "-", stdin=json.dumps(manifest(finish)))
    stack.kubectl("wait", "--for=condition=Running", "pytorchjob/simple", "--timeout=200s")
    until("both are active", lambda: active() == {"Master": 1, "Worker": 1}, context=lambda: f"{active()}")
    found = stack.kubectl("get", "pods", "-l", "training.kubeflow.org/job-role=master", "-o", "name")
    assert found.split() == ["pod/simple-master-0"]
    finish.touch()
    stack.kubectl("wait", "--for=condition=Succeeded", "pytorchjob/simple", "--timeout=200s")
    assert "Succeeded" in stack.kubectl("get", "pytorchjobs")
    assert "rank 0 of 2 meets at simple-master-0" in stack.kubectl("logs", "simple-master-0")
    left = stack.kubectl("get", "pods", "-l", "training.kubeflow.org/job-name=simple", "-o", "name")
    assert left.split() == ["pod/simple-master-0"], "cleanPodPolicy Running has taken the worker"
    stack.kubectl("delete", "pytorchjob", "simple")
    selector = "training.kubeflow.org/job-name=simple"
    until("its pods are gone", lambda: not stack.all_pods(labelSelector=selector), context=lambda: stack.output[-2000:])


REMOTE = (
    "set -e; while read host slots; do /etc/mpi/kubexec.sh $host echo $slots of '$HOSTNAME'; done < /etc/mpi/hostfile"
)
KEYS = """
set -e
cat /etc/mpi/hostfile
OWN=$(mktemp)  # ssh takes no key that others may read
cat /keys/id_rsa > $OWN
ssh-keygen -y -f $OWN | cmp - /keys/authorized_keys
rm $OWN
echo a key
"""
MPIJOBS: dict[str, tuple[str, str, Json, list[str]]] = {
    "v1: the launcher runs a command in each worker, by the agent": (
        "v1",
        REMOTE,
        {},
        ["slots=2 of digits-worker-0", "slots=2 of digits-worker-1"],
    ),
    "v2beta1: the launcher has hosts and an ssh key": (
        "v2beta1",
        KEYS,
        {"sshAuthMountPath": "/keys"},
        ["digits-worker-0.digits.default.svc slots=2", "digits-worker-1.digits.default.svc slots=2", "a key"],
    ),
}


@pytest.mark.parametrize("sentence", MPIJOBS)
def test_an_mpijob_lives_as_its_users_know_it(stack: LocalStack, sentence: str) -> None:
    version, program, more, want = MPIJOBS[sentence]

    def role(replicas: int, *command: str) -> Json:
        container = {"name": "mpi", "image": "none", "command": list(command)}
        template = {"spec": {"terminationGracePeriodSeconds": 1, "containers": [container]}}
        return {"replicas": replicas, "template": template}

    roles = {"Launcher": role(1, "sh", "-c", program), "Worker": role(2, "sleep", "3600")}
    spec = {"runPolicy": {"cleanPodPolicy": "Running"}, "slotsPerWorker": 2, "mpiReplicaSpecs": roles, **more}
    job = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob", "metadata": {"name": "digits"}, "spec": spec}
    stack.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    named = f"mpijobs.{version}.kubeflow.org/digits"
    stack.kubectl("wait", "--for=condition=Succeeded", named, "--timeout=200s")
    told = json.loads(stack.kubectl("get", named, "-o", "json"))
    assert (told["apiVersion"], told["spec"]["manifestVersion"]) == (f"kubeflow.org/{version}", version)
    lines = stack.kubectl("logs", "-l", "training.kubeflow.org/replica-type=launcher").splitlines()
    assert [line for line in lines if line and not line.startswith("+")] == want
    uid = told["metadata"]["uid"]
    stack.kubectl("delete", named)
    until(
        "its pods and its key are gone",
        lambda: (
            not stack.all_pods(labelSelector=f"elasticdeeplearning.ai/job-uid={uid}")
            and uid not in stack.kubectl("get", "secrets", "-o", "name")
        ),
        context=lambda: stack.output[-2000:],
    )
