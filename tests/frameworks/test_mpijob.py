"""MPIJobs train: KubeDL's and v1 of Kubeflow's by the operator's agent, v2beta1 by ssh. mpirun is Open MPI's, sshd
Debian's."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.frameworks.training import DEBIAN, HOME, TRAIN_SECONDS, Json, Training, falls, image, need
from tests.support import fast_yaml as yaml
from tests.support import waiting

SITE = "lib/python3.11/site-packages"
LAUNCH = [
    str(HOME / "bin/mpirun"),
    "--allow-run-as-root",
    "-np",
    "2",
    str(HOME / "bin/python"),
    "examples/mpi/train.py",
]


@pytest.fixture(scope="module")
def kubeflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    made = Training(tmp_path_factory.mktemp("mpijob"), TJ_KINDS="mpijobs.kubeflow.org,mpijobs.training.kubedl.io")
    try:
        made.start()
        yield made
    finally:
        made.clear()


def role(replicas: int, *command: str, **env: str) -> Json:
    """A template as an image would have it: programs and libraries, no word of MPI's set-up."""
    variables = [{"name": name, "value": value} for name, value in (image("mpi") | env).items()]
    container = {"name": "mpi", "image": "your/mpi:latest", "env": variables}
    template = {"spec": {"containers": [container | ({"command": list(command)} if command else {})]}}
    return {"replicas": replicas, "template": template}


def manifest(name: str, version: str, worker: Json) -> Json:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 1},
            "mpiReplicaSpecs": {"Launcher": role(1, *LAUNCH), "Worker": worker},
        },
    }


def trains(kubeflow: Training, job: Json) -> None:
    name, kind = job["metadata"]["name"], f"mpijobs.{job['apiVersion'].partition('/')[0]}"
    kubeflow.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(job))
    waiting.until(
        f"{name} has ended",
        lambda: "True" in kubeflow.kubectl("get", kind, name, "-o", f"jsonpath={ENDED}"),
        TRAIN_SECONDS,
        context=lambda: kubeflow.kubectl("get", kind, name, "-o", "yaml") + kubeflow.log(f"{name}-launcher-0"),
        look_seconds=0.5,
    )
    told = kubeflow.kubectl("get", kind, name, "-o", "yaml")
    log = kubeflow.log(f"{name}-launcher-0")
    assert "JobSucceeded" in told, told + log
    assert {line for line in log.splitlines() if line.startswith("rank ")} == {
        f"rank {index} of 2 on {name}-worker-{index}" for index in (0, 1)
    }, log
    falls(log, 40)
    assert kubeflow.kubectl("get", "pods", "-o", "name").split() == [f"pod/{name}-launcher-0"]
    kubeflow.kubectl("delete", kind, name)


ENDED = "{.status.conditions[?(@.type=='Succeeded')].status}{.status.conditions[?(@.type=='Failed')].status}"


def test_v1_trains_by_the_agent_with_a_worker_that_only_sleeps(kubeflow: Training) -> None:
    need(f"{SITE}/mpi4py", "bin/mpirun")
    trains(kubeflow, manifest("agent", "v1", role(2, "sleep", "3600")))


def test_kubedls_trains_by_the_agent(kubeflow: Training) -> None:
    need(f"{SITE}/mpi4py", "bin/mpirun")
    made = manifest("kubedl", "v1", role(2)) | {"apiVersion": "training.kubedl.io/v1alpha1"}
    trains(kubeflow, made)


def test_v2beta1_trains_by_ssh(kubeflow: Training) -> None:
    """sshd is unpacked and not installed: so its user, its folder and the settings of ssh are brought by the pod."""
    need(f"{SITE}/mpi4py", "bin/mpirun", "debian/usr/sbin/sshd")
    passwd = "root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n"
    settings = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "image"}}
    config |= {"data": {"passwd": passwd, "image.conf": settings}}
    kubeflow.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(config))
    if os.geteuid() != 0:
        pytest.skip("sshd of a pod of this machine takes logins as root only where it is root")
    sshd = [str(DEBIAN / "usr/sbin/sshd"), "-De", "-f", "/dev/null", "-o", "StrictModes=no"]
    worker = role(
        2, *sshd, "-o", "HostKey=/root/.ssh/id_rsa", "-o", "PidFile=none", LD_LIBRARY_PATH=os.pathsep.join(LIBRARIES)
    )
    job = manifest("ssh", "v2beta1", worker)
    for each in job["spec"]["mpiReplicaSpecs"].values():
        pod = each["template"]["spec"]
        pod["volumes"] = [{"name": "image", "configMap": {"name": "image"}}, {"name": "run", "emptyDir": {}}]
        pod["containers"][0]["volumeMounts"] = [
            {"name": "image", "mountPath": "/etc/passwd", "subPath": "passwd"},
            {"name": "image", "mountPath": "/etc/ssh/ssh_config.d"},
            {"name": "run", "mountPath": "/run/sshd"},
        ]
    trains(kubeflow, job)


LIBRARIES = [str(DEBIAN / "usr/lib/x86_64-linux-gnu"), str(DEBIAN / "lib/x86_64-linux-gnu")]
