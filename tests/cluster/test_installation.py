"""The operator on a real node, installed by the commands of docs/operations.md, through what happens to it while a job
trains. `-s` prints what each command said."""

from __future__ import annotations

import base64
import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.cluster import NAME, SECOND, Cluster, Json
from tests.cluster.installation import NAMESPACE, Installation, is_ready
from tests.compose.engine import NoEngineError, default_images, find_engine

COMPONENTS = {"watcher": 2, "worker": 2, "beat": 1, "flower": 1, "reporter": 1, "page": 1, "redis": 1}
JOB_SECONDS = 600.0


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[Installation]:
    made = Installation(cluster, cluster.folder / "installation")
    try:
        find_engine()
        made.make(default_images())
    except NoEngineError as missing:
        pytest.skip(str(missing))
    yield made
    for line, said in made.said.items():
        print(f"$ {line}\n{said}")  # noqa: T201  -s shows it


@dataclass
class Training:
    """The page's first job, slowed down so that much can happen to the operator before its end."""

    installed: Installation

    def begin(self) -> None:
        apply, _ = self.installed.page.first_job
        self.installed.run(apply.replace("sed '", 'sed \'s/"0.22"/"2"/; '))
        self.installed.cluster.until("it trains", lambda: self.epochs() >= 1, JOB_SECONDS)

    @property
    def job(self) -> Json:
        return self.installed.cluster.job("digits")

    def epochs(self) -> int:
        return int(self.job.get("status", {}).get("trainerStatus", {}).get("progressPercentage", 0)) // 5

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
    "a rolling update": ["rollout restart deploy/tj-watcher deploy/tj-worker deploy/tj-beat deploy/tj-reporter"],
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


@pytest.mark.parametrize("commands", DISTURBANCES.values(), ids=DISTURBANCES)
def test_a_job_trains_on_through(installed: Installation, training: Training, commands: list[str]) -> None:
    before, epochs = training.pods(), training.epochs()
    for command in commands:
        installed.run(f"kubectl -n {NAMESPACE} {command}")
    for component in COMPONENTS:
        ready(installed, component)
    # Pods that the autoscaler adds meanwhile are no loss.
    assert before.items() <= training.pods().items(), "a pod was replaced"
    installed.cluster.until("it goes on", lambda: training.epochs() > epochs, JOB_SECONDS)


def test_a_replica_that_is_deleted_after_all_that_is_replaced(installed: Installation, training: Training) -> None:
    before = training.pods()
    installed.cluster.kubectl("delete", "pod", "digits-trainer-0")
    installed.cluster.until(
        "it is replaced",
        lambda: training.pods().get("digits-trainer-0", before["digits-trainer-0"]) != before["digits-trainer-0"],
    )


def test_the_first_job_of_the_page_succeeds(installed: Installation, training: Training) -> None:
    installed.run(training.installed.page.first_job[1])
    status = training.job["status"]
    assert (status["phase"], status["trainerStatus"]["progressPercentage"]) == ("Succeed", 100)
    log = installed.cluster.kubectl("logs", "digits-master-0", "--tail", "1")
    assert re.search(r"accuracy 0\.9", log), log


# -- a second node ---------------------------------------------------------------------------------
def test_a_drain_moves_everything_and_redis_brings_its_data(installed: Installation) -> None:
    cluster = installed.cluster
    cluster.add_node()
    keys = "exec tj-redis-0 -- sh -c 'wc -c < /data/appendonlydir/appendonly.aof.1.incr.aof'"
    before = int(installed.run(f"kubectl -n {NAMESPACE} {keys}"))
    cluster.kubectl("drain", NAME, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=240s")
    for component in COMPONENTS:
        ready(installed, component)
        assert {pod["spec"]["nodeName"] for pod in installed.pods(component)} == {SECOND}, component
    assert int(installed.run(f"kubectl -n {NAMESPACE} {keys}")) >= before
    cluster.kubectl("uncordon", NAME)
