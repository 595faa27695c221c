"""How the fake kubelet plays pods: by annotation, by a hook, and what a kubelet would have written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.kubelet.fake import FakeKubelet
from localcluster.kubelet.node import NodeConfig
from localcluster.kubelet.play import play_of
from localcluster.wire import Json
from localcluster_tests.unit.world import PODS, conditions, fake, phases, pod, pods


def phase_is(value: str) -> Callable[[Json], bool]:
    return lambda status: bool(status["phase"] == value)


def state(status: Json) -> Json:
    state: Json = status["containerStatuses"][0]["state"]
    return state


@dataclass(frozen=True)
class Case:
    annotations: dict[str, str]
    seconds: float
    want: Callable[[Json], Any]
    restart: str = "Never"


CASES: dict[str, Case] = {
    "Without annotations a pod runs for ever": Case({}, 10_000, phase_is("Running")),
    "It runs for its time and succeeds": Case(fake(run_seconds=5), 6, phase_is("Succeeded")),
    "It is still running a moment before": Case(fake(run_seconds=5), 4.9, phase_is("Running")),
    "An exit code other than 0 fails it": Case(
        fake(run_seconds=5, exit_code=7),
        6,
        lambda s: (
            s["phase"] == "Failed"
            and state(s)["terminated"]["exitCode"] == 7
            and state(s)["terminated"]["reason"] == "Error"
        ),
    ),
    "The reason is shown": Case(
        fake(run_seconds=5, exit_code=137, reason="OOMKilled"),
        6,
        lambda s: state(s)["terminated"]["reason"] == "OOMKilled",
    ),
    "It starts late": Case(
        fake(start_seconds=10), 5, lambda s: state(s) == {"waiting": {"reason": "ContainerCreating"}}
    ),
    "It starts in the end": Case(fake(start_seconds=10), 11, phase_is("Running")),
    "It is running but not yet ready": Case(
        fake(ready_seconds=10), 5, lambda s: s["phase"] == "Running" and not s["containerStatuses"][0]["ready"]
    ),
    "It is ready in the end": Case(fake(ready_seconds=10), 11, lambda s: s["containerStatuses"][0]["ready"]),
    "An image that cannot be pulled keeps it pending": Case(
        fake(waiting_reason="ImagePullBackOff", waiting_message='Back-off pulling image "none"'),
        1000,
        lambda s: (
            s["phase"] == "Pending"
            and state(s) == {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "none"'}}
        ),
    ),
    "An image that can be pulled in the end lets it run": Case(
        fake(waiting_reason="ErrImagePull", waiting_seconds=30), 31, phase_is("Running")
    ),
    "OnFailure restarts it in place until it succeeds": Case(
        fake(run_seconds=1, failing_attempts=2),
        30,
        lambda s: s["phase"] == "Succeeded" and s["containerStatuses"][0]["restartCount"] == 2,
        restart="OnFailure",
    ),
    "OnFailure shows CrashLoopBackOff in between": Case(
        fake(run_seconds=1, failing_attempts=5),
        6,
        lambda s: s["phase"] == "Running" and state(s)["waiting"]["reason"] == "CrashLoopBackOff",
        restart="OnFailure",
    ),
    "Always runs a pod again that has succeeded": Case(
        fake(run_seconds=1),
        5,
        lambda s: s["phase"] == "Running" and s["containerStatuses"][0]["restartCount"] >= 1,
        restart="Always",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_playing_by_annotation(name: str) -> None:
    case = CASES[name]
    cluster = LocalCluster()
    cluster.client.create(PODS, pod("p", annotations=case.annotations, restart=case.restart))
    cluster.advance(case.seconds)
    status = cluster.client.get(f"{PODS}/p")["status"]
    assert case.want(status), status


def test_attempts_are_counted_over_pods_of_the_same_name() -> None:
    cluster = LocalCluster()
    for want in ("Failed", "Failed", "Succeeded"):
        cluster.client.create(
            PODS, pod("worker-0", annotations=fake(run_seconds=1, failing_attempts=2, failing_exit_code=3))
        )
        cluster.advance(2)
        assert phases(cluster) == [want]
        cluster.client.delete(f"{PODS}/worker-0")
        cluster.run_until_idle()


def test_attempts_of_a_jobs_pods_are_counted_by_the_job_whoever_names_them() -> None:
    """Two that its controller has made fail; then somebody makes one in the Job's name."""
    cluster = LocalCluster()
    flaky = pod("", annotations=fake(run_seconds=1, failing_attempts=2, failing_exit_code=3))
    template = {"metadata": {"annotations": flaky["metadata"]["annotations"]}, "spec": flaky["spec"]}
    spec = {"parallelism": 2, "template": template}
    cluster.client.create(
        "/apis/batch/v1/namespaces/default/jobs",
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec},
    )
    cluster.advance(2)
    assert phases(cluster) == ["Failed", "Failed"]
    like = pods(cluster)[0]
    kept = {k: like["metadata"][k] for k in ("labels", "annotations", "ownerReferences")}
    cluster.client.create(PODS, {**flaky, "metadata": {"name": "train-0-1", **kept}})
    cluster.advance(2)
    assert cluster.client.get(f"{PODS}/train-0-1")["status"]["phase"] == "Succeeded"


def test_a_running_pod_can_be_ended_and_made_unready() -> None:
    cluster = LocalCluster()
    cluster.client.create(PODS, pod("a"))
    cluster.run_until_idle()
    cluster.kubelet.set_ready("default", "a", False)
    cluster.run_until_idle()
    assert conditions(pods(cluster)[0])["Ready"] == "False/ContainersNotReady"
    cluster.kubelet.exit("default", "a", 137, "OOMKilled")
    cluster.run_until_idle()
    assert phases(cluster) == ["Failed"]


def test_a_running_pod_ends_when_an_annotation_says_so_and_a_restarted_container_runs_on() -> None:
    cluster = LocalCluster()
    for name, restart in (("a", "Never"), ("b", "OnFailure")):
        cluster.client.create(PODS, pod(name, restart=restart))
    cluster.run_until_idle()
    for name in ("a", "b"):
        cluster.client.patch(f"{PODS}/{name}", {"metadata": {"annotations": fake(exit=137)}})
    cluster.run_until_idle()
    ended = cluster.client.get(f"{PODS}/a")["status"]
    assert (ended["phase"], state(ended)["terminated"]["exitCode"]) == ("Failed", 137)
    cluster.advance(20)
    restarted = cluster.client.get(f"{PODS}/b")["status"]
    assert (restarted["phase"], restarted["containerStatuses"][0]["restartCount"]) == ("Running", 1)


@dataclass(frozen=True)
class Deletion:
    annotations: dict[str, str]
    after_seconds: float
    want: list[str]


DELETIONS: dict[str, Deletion] = {
    "A deleted pod goes at once by default": Deletion({}, 0, []),
    "It takes the time that it needs": Deletion(fake(terminate_seconds=10), 9, ["-Running"]),
    "Then it is gone": Deletion(fake(terminate_seconds=10), 11, []),
    "One that never ends goes when its grace is over": Deletion(fake(terminate_seconds="never"), 29, ["-Running"]),
    "And not later": Deletion(fake(terminate_seconds="never"), 31, []),
    "A pod that never started goes at once": Deletion(fake(waiting_reason="ImagePullBackOff"), 0, []),
}


@pytest.mark.parametrize("name", DELETIONS)
def test_deleting_a_pod(name: str) -> None:
    case = DELETIONS[name]
    cluster = LocalCluster()
    cluster.client.create(PODS, pod("p", annotations=case.annotations))
    cluster.run_until_idle()
    cluster.client.delete(f"{PODS}/p")
    cluster.advance(case.after_seconds)
    assert phases(cluster) == case.want


def test_the_conditions_of_a_pods_life_are_those_of_a_kubelet() -> None:
    cluster = LocalCluster()
    cluster.client.create(PODS, pod("p", annotations=fake(run_seconds=5)))
    cluster.run_until_idle()
    assert conditions(pods(cluster)[0]) == {
        "PodScheduled": "True/",
        "PodReadyToStartContainers": "True/",
        "Initialized": "True/",
        "Ready": "True/",
        "ContainersReady": "True/",
    }
    cluster.advance(6)
    assert conditions(pods(cluster)[0]) == {
        "PodScheduled": "True/",
        "PodReadyToStartContainers": "False/",
        "Initialized": "True/PodCompleted",
        "Ready": "False/PodCompleted",
        "ContainersReady": "False/PodCompleted",
    }


def test_a_restarted_kubelet_goes_on_with_what_runs() -> None:
    cluster = LocalCluster()
    cluster.client.create(PODS, pod("p", annotations=fake(run_seconds=50)))
    cluster.advance(20)
    began = state(pods(cluster)[0]["status"])
    again = FakeKubelet(cluster.client, cluster.informers, cluster.clock, [NodeConfig("node-0")])
    cluster.driver.machines[-1] = again
    cluster.run_until_idle()
    assert state(pods(cluster)[0]["status"]) == began
    cluster.advance(31)
    assert phases(cluster) == ["Succeeded"]


def test_a_number_that_is_none_is_named() -> None:
    with pytest.raises(ValueError, match=r"fake.localcluster/run-seconds='soon' of pod p"):
        play_of(pod("p", annotations=fake(run_seconds="soon")), 1)
