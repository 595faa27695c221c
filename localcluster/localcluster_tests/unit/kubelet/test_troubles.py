"""Nodes in trouble, and what their kubelets write into the pods then: as kubelet 1.36.3 does (`kubelet/troubles.py`
says where)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.kubelet.fake import FakeKubelet
from localcluster.kubelet.node import FAIL_ANNOTATION, NodeConfig
from localcluster.kubelet.troubles import EVICT_ANNOTATION
from localcluster.objects import condition, seconds_of
from localcluster.wire import Json, Watch
from localcluster_tests.unit.world import PODS, conditions, phases, pod

GPU = "nvidia.com/gpu"
POD = f"{PODS}/p"
NODE = "/api/v1/nodes/node-0"


def cluster_of_one(gpus: int = 2) -> LocalCluster:
    return LocalCluster(nodes=[NodeConfig("node-0", gpus=gpus)])


def annotate(cluster: LocalCluster, path: str, **values: str | None) -> None:
    names = {"fail": FAIL_ANNOTATION, "evict": EVICT_ANNOTATION}
    cluster.client.patch(path, {"metadata": {"annotations": {names[k]: v for k, v in values.items()}}})
    cluster.run_until_idle()


def of(cluster: LocalCluster, name: str) -> Json:
    return cluster.client.get(f"{PODS}/{name}")


def bound(name: str = "p", **spec: Any) -> Json:
    """Placed by hand, as by a scheduler that does not know of the trouble."""
    made = pod(name)
    made["spec"] |= {"nodeName": "node-0", **spec}
    return made


def ended_by(status: Json) -> tuple[str, str, str]:
    disrupted = condition({"status": status}, "DisruptionTarget") or {}
    return status["phase"], status.get("reason", ""), disrupted.get("reason", "")


# -- turned away -----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Refused:
    fail: str
    want_reason: str
    want_message: str
    spec: Json = field(default_factory=dict)


_GPU: Json = {"containers": [{"name": "c", "image": "x", "resources": {"limits": {GPU: "1"}, "requests": {GPU: "1"}}}]}
REFUSED = {
    "The device plugin's word comes late: UnexpectedAdmissionError.": Refused(
        "Reject=UnexpectedAdmissionError",
        "UnexpectedAdmissionError",
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
        "Requested: 1, Available: 0, which is unexpected",
        _GPU,
    ),
    "No healthy device, while the plugin restarts.": Refused(
        "DevicePlugin",
        "UnexpectedAdmissionError",
        "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
        "nvidia.com/gpu, which is unexpected",
        _GPU,
    ),
    "Somebody else was quicker: OutOfcpu.": Refused(
        "Reject=OutOfcpu",
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1, used: 8, capacity: 8",
    ),
    "No NUMA node has it all: TopologyAffinityError.": Refused(
        "Reject=TopologyAffinityError",
        "TopologyAffinityError",
        "Pod was rejected: Resources cannot be allocated with Topology locality",
    ),
    "The node shuts down.": Refused(
        "NodeShutdown", "NodeShutdown", "Pod was rejected: Pod was rejected as the node is shutting down."
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_that_is_turned_away_has_failed_and_nothing_else_is_said_of_it(case: Refused) -> None:
    cluster = cluster_of_one()
    annotate(cluster, NODE, fail=case.fail)
    cluster.client.create(PODS, bound(**case.spec))
    cluster.run_until_idle()
    status = of(cluster, "p")["status"]
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", case.want_reason, case.want_message)
    assert set(status) - {"observedGeneration"} == {"phase", "reason", "message", "startTime", "qosClass"}


def test_a_kubelet_that_is_started_anew_turns_away_nothing_that_runs() -> None:
    cluster = cluster_of_one()
    cluster.client.create(PODS, pod("p"))
    cluster.run_until_idle()
    annotate(cluster, NODE, fail="Reject=UnexpectedAdmissionError")
    again = FakeKubelet(cluster.client, cluster.informers, cluster.clock, [NodeConfig("node-0")])
    again.fail("node-0", "Reject=UnexpectedAdmissionError")
    cluster.driver.machines[-1] = again
    cluster.run_until_idle()
    assert phases(cluster) == ["Running"]


# -- no place for it -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Placed:
    """By hand, past the scheduler, next to a pod of 6 CPUs on host port 80 of a node of 8 CPUs, 32 GiB and 2 GPUs."""

    want: tuple[str, str]
    """Reason, and how the message goes on."""
    limits: dict[str, str] = field(default_factory=dict)
    spec: Json = field(default_factory=dict)
    ports: tuple[int, ...] = ()


def short_of(resource: str, requested: int, used: int, capacity: int) -> tuple[str, str]:
    said = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {said}"


def predicate(name: str, why: str) -> tuple[str, str]:
    return name, f"Predicate {name} failed: {why}"


GI = 2**30
RUNS = ("", "")
PLACED = {
    "What is left is enough.": Placed(RUNS, {"cpu": "2", GPU: "2"}),
    "Another pod has the CPUs.": Placed(short_of("cpu", 2001, 6000, 8000), {"cpu": "2001m"}),
    "More memory than the node has.": Placed(short_of("memory", 33 * GI, 0, 32 * GI), {"memory": "33Gi"}),
    "More GPUs than the node has.": Placed(short_of(GPU, 3, 0, 2), {GPU: "3"}),
    "A device that the node never had is not looked at.": Placed(RUNS, {"example.com/fpga": "1"}),
    "The node has not its label.": Placed(
        predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector"),
        spec={"nodeSelector": {"no": "such"}},
    ),
    "Another pod has its host port.": Placed(
        predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports"), ports=(80,)
    ),
    "Without CPUs and label, the CPUs are named.": Placed(
        short_of("cpu", 9000, 6000, 8000), {"cpu": "9"}, {"nodeSelector": {"no": "such"}}
    ),
}


@pytest.mark.parametrize("case", PLACED.values(), ids=PLACED.keys())
def test_a_pod_for_which_the_node_has_no_place_is_turned_away(case: Placed) -> None:
    def hand_placed(name: str, limits: dict[str, str], ports: tuple[int, ...], **spec: Any) -> Json:
        main = {"name": "main", "image": "none", "resources": {"limits": limits, "requests": limits}}
        return bound(name, containers=[{**main, "ports": [{"containerPort": p, "hostPort": p} for p in ports]}], **spec)

    cluster = cluster_of_one()
    cluster.client.create(PODS, hand_placed("a", {"cpu": "6"}, (80,)))
    cluster.client.create(PODS, hand_placed("p", case.limits, case.ports, **case.spec))
    cluster.run_until_idle()
    status = of(cluster, "p")["status"]
    reason, message = case.want
    assert (status["phase"], status.get("reason", "")) == ("Failed" if reason else "Running", reason)
    assert status.get("message", "") == (f"Pod was rejected: {message}" if reason else "")
    assert ("containerStatuses" in status) is not bool(reason)


def test_a_tainted_node_turns_away_whom_its_taint_would_end() -> None:
    cluster = cluster_of_one()
    tainted(cluster)
    # The taint manager deletes it at the same time.
    kept = bound()
    kept["metadata"]["finalizers"] = ["example.com/look"]
    cluster.client.create(PODS, kept)
    cluster.run_until_idle()
    assert of(cluster, "p")["status"]["reason"] == "TaintToleration"


# -- ended -----------------------------------------------------------------------------------------
def evicted(kind: str) -> Callable[[LocalCluster], None]:
    return lambda cluster: annotate(cluster, POD, evict=kind)


def tainted(cluster: LocalCluster) -> None:
    cluster.client.patch(NODE, {"spec": {"taints": [{"key": "maintenance", "effect": "NoExecute"}]}})
    cluster.run_until_idle()


@dataclass(frozen=True)
class Ended:
    trouble: Callable[[LocalCluster], None]
    want: tuple[str, str, str]
    """Phase, reason, and the reason of DisruptionTarget."""
    want_message: str
    spec: Json = field(default_factory=dict)


_SCRATCH: Json = {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}]}
ENDED = {
    "Its own emptyDir is too full: its own fault.": Ended(
        evicted("limit"),
        ("Failed", "Evicted", ""),
        'Usage of EmptyDir volume "scratch" exceeds the limit "1Gi". ',
        _SCRATCH,
    ),
    "Its own ephemeral storage is used up: its own fault.": Ended(
        evicted("limit"),
        ("Failed", "Evicted", ""),
        "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
    ),
    "The node is low on memory: not its fault.": Ended(
        evicted("pressure"),
        ("Failed", "Evicted", "TerminationByKubelet"),
        "The node was low on resource: memory. Threshold quantity: 100Mi, available: 88Mi. ",
    ),
    "The node shuts down in order: not its fault.": Ended(
        lambda cluster: annotate(cluster, NODE, fail="NodeShutdown"),
        ("Failed", "Terminated", "TerminationByKubelet"),
        "Pod was terminated in response to imminent node shutdown.",
    ),
}


@pytest.mark.parametrize("case", ENDED.values(), ids=ENDED.keys())
def test_a_pod_that_the_kubelet_ends_has_failed(case: Ended) -> None:
    cluster = cluster_of_one()
    cluster.client.create(PODS, bound(**case.spec))
    cluster.run_until_idle()
    assert phases(cluster) == ["Running"]
    case.trouble(cluster)
    status = of(cluster, "p")["status"]
    assert (ended_by(status), status["message"]) == (case.want, case.want_message)
    assert [c["state"]["terminated"]["exitCode"] for c in status["containerStatuses"]] == [143]
    assert conditions(of(cluster, "p"))["Ready"].startswith("False")


def test_an_eviction_takes_the_place_of_an_exit_where_the_run_would_end() -> None:
    cluster = cluster_of_one()
    annotations = {"main.localcluster/evict": "limit", "fake.localcluster/run-seconds": "20"}
    cluster.client.create(PODS, pod("p", annotations=annotations))
    cluster.advance(19)
    assert phases(cluster) == ["Running"]
    cluster.advance(2)
    assert ended_by(of(cluster, "p")["status"]) == ("Failed", "Evicted", "")


def test_a_pod_takes_its_grace_when_the_node_shuts_down_and_a_second_when_it_is_evicted() -> None:
    cluster = cluster_of_one()
    slow = {"fake.localcluster/terminate-seconds": "20"}
    for name in ("p", "q"):
        cluster.client.create(PODS, pod(name, annotations=slow))
    cluster.run_until_idle()
    annotate(cluster, POD, evict="limit")
    cluster.advance(1)
    assert phases(cluster) == ["Failed", "Running"]
    annotate(cluster, NODE, fail="NodeShutdown")
    cluster.advance(19)
    assert phases(cluster) == ["Failed", "Running"]
    cluster.advance(2)
    assert phases(cluster) == ["Failed", "Failed"]


# -- the node --------------------------------------------------------------------------------------
def test_a_device_plugin_that_restarts_takes_the_gpus_away_and_no_pod() -> None:
    cluster = cluster_of_one()
    cluster.client.create(PODS, bound(**_GPU))
    cluster.run_until_idle()
    annotate(cluster, NODE, fail="DevicePlugin")
    status = cluster.client.get(NODE)["status"]
    assert (status["capacity"][GPU], status["allocatable"][GPU]) == ("2", "0")
    assert phases(cluster) == ["Running"]
    annotate(cluster, NODE, fail=None)
    assert cluster.client.get(NODE)["status"]["allocatable"][GPU] == "2"
    assert phases(cluster) == ["Running"]


def test_a_flapping_node_is_ready_and_not_and_its_pods_with_it() -> None:
    cluster = cluster_of_one()
    cluster.client.create(PODS, pod("p"))
    cluster.run_until_idle()
    annotate(cluster, NODE, fail="Flapping")
    seen = []
    for _ in range(8):
        cluster.advance(5)
        node, of_pod = condition(cluster.client.get(NODE), "Ready"), condition(of(cluster, "p"), "Ready")
        assert node is not None
        assert of_pod is not None
        seen.append((node["status"], of_pod["status"]))
    assert set(seen) == {("True", "True"), ("False", "False")}
    annotate(cluster, NODE, fail=None)
    assert "spec" not in (shown := cluster.client.get(NODE)) or not shown["spec"].get("taints")
    assert conditions(of(cluster, "p"))["Ready"].startswith("True")


def test_a_node_whose_clock_is_behind_writes_earlier_times_and_not_again_and_again() -> None:
    cluster = cluster_of_one()
    cluster.advance(100)
    annotate(cluster, NODE, fail="ClockSkew=-1.5")
    cluster.client.create(PODS, pod("p"))
    cluster.advance(10)
    seen = of(cluster, "p")
    began = seconds_of(seen["status"]["containerStatuses"][0]["state"]["running"]["startedAt"])
    assert 1 <= seconds_of(seen["metadata"]["creationTimestamp"]) - began <= 2
    annotate(cluster, POD, evict="")  # the kubelet looks again
    version = of(cluster, "p")["metadata"]["resourceVersion"]
    cluster.kubelet.enqueue("pod:default/p")
    cluster.advance(30)
    assert of(cluster, "p")["metadata"]["resourceVersion"] == version


def test_logs_of_a_silent_node_never_come() -> None:
    cluster = cluster_of_one()
    cluster.client.create(PODS, pod("p", annotations={"fake.localcluster/log": "hello"}))
    cluster.run_until_idle()
    source = cluster.apiserver.log_source
    assert source is not None
    assert cluster.request("GET", f"{POD}/log").body == b"hello"
    annotate(cluster, NODE, fail="SilentLogs")
    answer = source("default", "p", "c", {})
    assert isinstance(answer, Watch)
    cluster.advance(60)
    assert (answer.poll(), answer.closed) == ([], False)


def test_a_word_that_is_none_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    cluster = cluster_of_one()
    annotate(cluster, NODE, fail="DevicePlugn")
    cluster.advance(60)
    assert (condition(cluster.client.get(NODE), "Ready") or {})["status"] == "True"
    assert "localcluster/fail=DevicePlugn is none of NotReady, gone" in caplog.text
