"""The operator on a real node, installed by the commands of docs/operations.md, through what happens to it while a job
trains. `-s` prints what each command said."""

from __future__ import annotations

import base64
import json
import re
import socket
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.cluster.cluster import NAME, SECOND, Cluster, Json
from tests.cluster.installation import ADDONS, NAMESPACE, Installation, is_ready
from tests.compose.engine import NoEngineError

COMPONENTS = {"watcher": 2, "worker": 2, "beat": 1, "flower": 1, "reporter": 1, "page": 1, "redis": 1}
JOB_SECONDS = 600.0
IMAGE = "registry.example.com/ml/digits:0.1.0"


@pytest.fixture(scope="module")
def installed(cluster: Cluster, building: Future[Installation]) -> Iterator[Installation]:
    try:
        made = building.result()
    except NoEngineError as missing:
        pytest.skip(str(missing))
    made.make(cluster)
    yield made
    for line, said in made.said.items():
        print(f"$ {line}\n{said}")  # noqa: T201  -s shows it


@dataclass
class Training:
    """The page's first job with ten times the epochs: it does not end while things happen to the operator."""

    installed: Installation

    def begin(self) -> None:
        apply, _ = self.installed.page.first_job
        self.installed.run(apply.replace("sed '", 'sed \'s/"20"/"200"/; s/"0.22"/"0.5"/; '))
        self.installed.cluster.until("it trains", lambda: self.percent() >= 1, JOB_SECONDS)

    def end(self) -> None:
        self.installed.cluster.kubectl("delete", "aitj", "digits")
        self.installed.cluster.until("its pods are gone", lambda: not self.pods())

    @property
    def job(self) -> Json:
        return self.installed.cluster.job("digits")

    def percent(self) -> int:
        """As its master has reported it."""
        return int(self.job.get("status", {}).get("trainerStatus", {}).get("progressPercentage", 0))

    def pods(self) -> dict[str, str]:
        found = json.loads(self.installed.cluster.kubectl("get", "pods", "-l", "job-name=digits", "-o", "json"))
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found["items"]}


@pytest.fixture(scope="module")
def training(installed: Installation) -> Training:
    made = Training(installed)
    made.begin()
    return made


def ready(installed: Installation, component: str) -> None:
    """As many as there are to be, none of them on its way out."""

    def all_there() -> bool:
        pods = installed.pods(component)
        return len(pods) == COMPONENTS[component] and all(map(is_ready, pods))

    installed.cluster.until(f"{component} is ready", all_there)


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_part_is_ready_and_was_not_started_twice(installed: Installation, component: str) -> None:
    ready(installed, component)
    restarts = [c["restartCount"] for pod in installed.pods(component) for c in pod["status"]["containerStatuses"]]
    assert restarts == [0] * COMPONENTS[component]


def test_the_namespace_enforces_restricted_and_refuses_what_is_not(installed: Installation) -> None:
    spec = {"containers": [{"name": "main", "image": "none"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "root", "namespace": NAMESPACE}, "spec": spec}
    with pytest.raises(AssertionError, match='violates PodSecurity "restricted'):
        installed.cluster.kubectl("create", "-f", "-", stdin=json.dumps(pod))


def test_doctor_finds_nothing_wrong_from_within_a_worker(installed: Installation) -> None:
    (said,) = [said for line, said in installed.said.items() if line.endswith("tj doctor")]
    assert "[FAIL]" not in said, said


def test_flower_answers_through_the_pages_port_forward_to_the_pages_password(installed: Installation) -> None:
    (line,) = [line for line in installed.page.install if "port-forward" in line]
    (password,) = [said for line, said in installed.said.items() if "get secret tj-flower" in line]
    with installed.forwarded(line, 5555) as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/workers")
        request.add_header("Authorization", f"Basic {base64.b64encode(password.encode()).decode()}")
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  the loopback
            assert "celery@tj-worker" in answer.read().decode()


def test_the_page_shows_a_job_to_a_token_of_the_cluster(installed: Installation, training: Training) -> None:
    token = installed.cluster.kubectl("-n", NAMESPACE, "create", "token", "watcher").strip()
    with installed.forwarded(f"kubectl -n {NAMESPACE} port-forward svc/tj-page 8088:80", 8088) as port:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310  the loopback
            assert "digits" in answer.read().decode()


DISTURBANCES = {
    "a version that cannot start, and its rollback": [
        "set image deploy/tj-worker worker=localhost/no-such-version:1",
        "rollout undo deploy/tj-worker",
    ],
    "every pod of watcher and worker deleted": [
        "delete pod -l app.kubernetes.io/component=watcher --wait=false",
        "delete pod -l app.kubernetes.io/component=worker --wait=false",
    ],
    "Redis' pod deleted": ["delete pod tj-redis-0"],
}


@contextmanager
def goes_on(installed: Installation, training: Training) -> Iterator[None]:
    """The job keeps its pods through it and trains on; the operator is whole again."""
    before, percent = training.pods(), training.percent()
    yield
    for component in COMPONENTS:
        ready(installed, component)
    # Pods that the autoscaler adds meanwhile are no loss.
    assert before.items() <= training.pods().items(), "a pod was replaced"
    installed.cluster.until("it goes on", lambda: training.percent() > percent, JOB_SECONDS)


@pytest.mark.parametrize("commands", DISTURBANCES.values(), ids=DISTURBANCES)
def test_a_job_trains_on_through(installed: Installation, training: Training, commands: list[str]) -> None:
    with goes_on(installed, training):
        for command in commands:
            installed.run(f"kubectl -n {NAMESPACE} {command}")


def test_a_job_trains_on_through_an_update_to_other_settings(installed: Installation, training: Training) -> None:
    old = {pod["metadata"]["name"] for pod in installed.pods("worker")}
    with goes_on(installed, training):
        installed.serve("pytorchjobs.kubeflow.org", "mpijobs.kubeflow.org")
    assert not old & {pod["metadata"]["name"] for pod in installed.pods("worker")}


def test_kubectl_and_tj_reach_into_its_containers(installed: Installation, training: Training) -> None:
    tj = f"{sys.executable} -m tjworker.cli"
    # Between two epochs the master may say more: on a busy machine which trainers are silent.
    assert re.search(r"epoch \d+/200 ", installed.run(f"{tj} logs digits --role master --tail 200"))
    assert "trainer" in installed.run(f"{tj} describe digits")
    assert "digits" in installed.run(f"{tj} get")
    assert installed.run("echo typed | kubectl exec -i digits-master-0 -- cat") == "typed\n"
    installed.run("echo copied > file && kubectl cp file digits-master-0:/tmp/file")
    assert installed.run("kubectl exec digits-master-0 -- cat /tmp/file") == "copied\n"
    with installed.forwarded("kubectl port-forward pod/digits-master-0 7000", 7000) as port:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()


def test_a_replica_that_is_deleted_after_all_that_is_replaced(installed: Installation, training: Training) -> None:
    before = training.pods()
    installed.cluster.kubectl("delete", "pod", "digits-trainer-0")
    installed.cluster.until(
        "it is replaced",
        lambda: training.pods().get("digits-trainer-0", before["digits-trainer-0"]) != before["digits-trainer-0"],
    )


def test_the_first_job_of_the_page_succeeds(installed: Installation, training: Training) -> None:
    training.end()
    for line in installed.page.first_job:
        installed.run(line)
    assert training.job["status"]["phase"] == "Succeed"
    installed.cluster.until("its last report is shown", lambda: training.percent() == 100)
    log = installed.cluster.kubectl("logs", "digits-master-0", "--tail", "1")
    assert re.search(r"accuracy 0\.9", log), log


# -- other kinds, and addons -----------------------------------------------------------------------
MEET = """
import socket
if rank == "0":
    server = socket.create_server(("", int(at[1])))
    print("rank", server.accept()[0].recv(9).decode(), "has come")
else:
    while True:
        try:
            socket.create_connection(at).sendall(rank.encode())
            break
        except OSError:
            pass
"""
BY_PYTORCH = 'from os import environ as e; at = e["MASTER_ADDR"], e["MASTER_PORT"]; rank = e["RANK"]'
BY_HOSTS = """
from os import environ as e
rank, at = e["TRAININGJOB_REPLICA_INDEX"], e["TRAINER_HOSTS"].split(",")[0].split(":")
assert at[1] == e["TRAININGJOB_PORTS"] or rank != "0"
"""


def guest(kind: str, name: str, field: str, roles: dict[str, Json], version: str = "v1") -> Json:
    spec = {"runPolicy": {"cleanPodPolicy": "None"}, field: roles}
    return {"apiVersion": f"kubeflow.org/{version}", "kind": kind, "metadata": {"name": name}, "spec": spec}


def role(container: Json, replicas: int = 1) -> Json:
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": spec}}


def mpijob(name: str, version: str, worker: Json, **container: Json) -> Json:
    """Two workers, and a launcher whose log has their host names, as `mpirun` gets them. `container`: more of each."""
    main = {"name": "mpi", "image": ADDONS, **container}
    launch = ["sh", "-c", "mpirun --allow-run-as-root -n 2 hostname | sort | xargs"]
    roles = {"Launcher": role({**main, "command": launch}), "Worker": role({**main, **worker}, replicas=2)}
    return guest("MPIJob", name, "mpiReplicaSpecs", roles, version)


def own(name: str, annotations: dict[str, str], command: list[str], replicas: int = 1, events: str = "") -> Json:
    """`events`: a folder of the node that its containers find as /events."""
    main: Json = {"name": "aitj-main", "image": ADDONS, "command": command}
    main["ports"] = [{"name": "aitj-peers", "containerPort": 7000}]
    spec: Json = {"containers": [main], "terminationGracePeriodSeconds": 1}
    if events:
        spec["volumes"] = [{"name": "events", "hostPath": {"path": events}}]
        main["volumeMounts"] = [{"name": "events", "mountPath": "/events"}]
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "cleanPodPolicy": "None",
            "replicaSpecs": {"trainer": {"replicas": replicas, "template": {"spec": spec}}},
        },
    }


JOBS = {
    "ranks of a PyTorchJob meet at the master": (
        guest(
            *("PyTorchJob", "meeting", "pytorchReplicaSpecs"),
            dict.fromkeys(
                ("Master", "Worker"),
                role({"name": "pytorch", "image": IMAGE, "command": ["python", "-c", BY_PYTORCH + MEET]}),
            ),
        ),
        "meeting-master-0",
        "rank 1 has come",
    ),
    "mpirun starts processes in the workers of an MPIJob by the agent": (
        mpijob("agent", "v1", {"command": ["sleep", "3600"]}),
        "agent-launcher-0",
        "agent-worker-0 agent-worker-1",
    ),
    "mpirun starts processes in the workers of an MPIJob by ssh": (
        mpijob("ssh", "v2beta1", {}, securityContext={"runAsUser": 0}),
        "ssh-launcher-0",
        "ssh-worker-0 ssh-worker-1",
    ),
    "the code of a repository is in the container": (
        own(
            "cloned", {"kubedl.io/git-sync-config": '{"source": "git://repository/code"}'}, ["python", "/code/main.py"]
        ),
        "cloned-trainer-0",
        "this came by git",
    ),
    "replicas on the host network meet at the port that they are told": (
        own("hosted", {"kubedl.io/network-mode": "host"}, ["python", "-c", BY_HOSTS + MEET], replicas=2),
        "hosted-trainer-0",
        "rank 1 has come",
    ),
}
REPOSITORY = """
git init -q /tmp/code && cd /tmp/code && echo 'print("this came by git")' > main.py && git add main.py &&
git -c user.name=test -c user.email=test@example.com commit -q -m first &&
exec git daemon --export-all --base-path=/tmp
"""


@pytest.fixture(scope="module")
def repository(installed: Installation) -> None:
    """A git server, by the name `repository`."""
    main = {"name": "main", "image": ADDONS, "command": ["sh", "-c", REPOSITORY]}
    meta = {"name": "repository", "labels": {"app": "repository"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [main]}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta}
    service["spec"] = {"selector": meta["labels"], "ports": [{"port": 9418}]}
    made = {"apiVersion": "v1", "kind": "List", "items": [pod, service]}
    installed.cluster.kubectl("apply", "-f", "-", stdin=json.dumps(made))


@pytest.mark.parametrize(("job", "pod", "words"), JOBS.values(), ids=JOBS)
def test_a_job_in_whose_log(installed: Installation, repository: None, job: Json, pod: str, words: str) -> None:
    cluster, group = installed.cluster, job["apiVersion"].partition("/")[0]
    name = f"{job['kind'].lower()}.{group}/{job['metadata']['name']}"
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))
    path = 'jsonpath={.status.conditions[?(@.type=="Succeeded")].status}'
    cluster.until("it has succeeded", lambda: cluster.kubectl("get", name, "-o", path) == "True", JOB_SECONDS)
    assert words in cluster.kubectl("logs", pod)
    if job["metadata"].get("annotations", {}).get("kubedl.io/network-mode"):
        assert cluster.status(pod)["podIP"] == cluster.nodes[0].address
    cluster.kubectl("delete", name)


LOSS = """
import time
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter("/events/run")
summary = Summary(value=[Summary.Value(tag="loss", simple_value=2)])
writer.add_event(Event(step=1, wall_time=time.time(), summary=summary))
writer.close()
time.sleep(3600)
"""


def test_a_tensorboard_shows_what_a_job_writes(installed: Installation) -> None:
    folder = installed.folder / "events"
    folder.mkdir()
    folder.chmod(0o777)
    config = {"kubedl.io/tensorboard-config": '{"logDir": "/events"}'}
    job = own("watched", config, ["python", "-c", LOSS], events=str(folder))
    installed.cluster.kubectl("create", "-f", "-", stdin=json.dumps(job))
    path = 'jsonpath={.status.conditions[?(@.type=="TensorBoard")].status}'
    installed.cluster.until(
        "it serves", lambda: installed.cluster.kubectl("get", "aitj", "watched", "-o", path) == "True", JOB_SECONDS
    )
    with installed.forwarded("kubectl port-forward pod/watched-tensorboard-0 6006", 6006) as port:
        tags = f"http://127.0.0.1:{port}/default/watched/data/plugin/scalars/tags"

        def shown() -> bool:
            with urllib.request.urlopen(tags, timeout=60) as answer:
                return "loss" in json.load(answer).get("run", {})

        installed.cluster.until("it has read the events", shown)
    installed.cluster.kubectl("delete", "aitj", "watched")


# -- a second node, and the end --------------------------------------------------------------------
def test_a_drain_moves_the_operator_and_redis_brings_its_data(installed: Installation) -> None:
    cluster = installed.cluster
    installed.use_second_node()
    size = "exec tj-redis-0 -- sh -c 'cat /data/appendonlydir/*.aof | wc -c'"
    before = int(installed.run(f"kubectl -n {NAMESPACE} {size}"))
    assert before
    cluster.kubectl("drain", NAME, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=200s")
    for component in COMPONENTS:
        ready(installed, component)
        assert {pod["spec"]["nodeName"] for pod in installed.pods(component)} == {SECOND}, component
    assert int(installed.run(f"kubectl -n {NAMESPACE} {size}")) >= before
    cluster.kubectl("uncordon", NAME)


def test_uninstalling_leaves_nothing_but_the_kinds_of_other_operators(installed: Installation) -> None:
    installed.uninstall()
    kubectl = installed.cluster.kubectl
    assert "tj-" not in kubectl("get", "namespaces,clusterroles,clusterrolebindings,priorityclasses", "-o", "name")
    assert "elasticdeeplearning.ai" not in kubectl("get", "crds", "-o", "name")
    assert "pytorchjobs.kubeflow.org" in kubectl("get", "crds", "-o", "name"), "its jobs may be another operator's"
    assert kubectl("get", "pods", "-l", "job-name", "-o", "name") == ""
