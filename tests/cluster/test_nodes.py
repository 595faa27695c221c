"""What is written of pods when something happens to their node: docs/internals/kubelet.md, on a second node."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import SECOND, Cluster, Json, disruption, state
from tests.cluster.images import TOOL
from tests.cluster.test_jobs import apply, phase, role

GPU = "example.com/gpu"


@pytest.fixture(autouse=True)
def second(cluster: Cluster) -> Iterator[None]:
    """The second node is Ready before and after each test, and has no pod of it."""
    yield
    node = cluster.second
    cluster.kubectl("delete", "pods", "--all", "--force", "--grace-period=0", "--wait=false")
    cluster.until("the second node is Ready", node.is_ready)


def start(cluster: Cluster, name: str, *arguments: str, spec: Json | None = None, **container: Any) -> None:
    node = cluster.second.name
    cluster.run(name, *(arguments or ("pause",)), spec={"nodeName": node, **(spec or {})}, **container)
    cluster.until(f"{name} runs", lambda: cluster.status(name)["phase"] == "Running")


def seen(cluster: Cluster, name: str) -> tuple[str, str, str]:
    """Phase, reason, and why the pod is disrupted."""
    status = cluster.status(name)
    return status["phase"], status.get("reason", ""), disruption(status)


def memory(cluster: Cluster, of: str) -> str:
    """Of the second node: its `capacity`, or what is `allocatable` to pods."""
    return str(cluster.node(cluster.second.name)["status"][of]["memory"])


def test_after_a_power_cut_the_end_of_a_container_is_unknown(cluster: Cluster) -> None:
    start(cluster, "cut")
    cluster.second.cut_power()
    cluster.second.power_on()
    cluster.until("the pod has ended", lambda: cluster.status("cut")["phase"] == "Failed")
    assert state(cluster.status("cut")) == ("terminated", "Unknown", 255)
    assert seen(cluster, "cut") == ("Failed", "", "")


def test_a_node_that_is_short_of_memory_evicts_and_turns_away(cluster: Cluster) -> None:
    capacity = int(memory(cluster, "capacity").removesuffix("Ki"))
    cluster.second.restart_kubelet(
        kubeReserved={"memory": f"{capacity - 600 * 1024}Ki"},
        evictionHard={"memory.available": "200Mi"},
        evictionPressureTransitionPeriod="5m",
    )
    cluster.until("its pods have 400 Mi", lambda: memory(cluster, "allocatable") == "400Mi")
    start(cluster, "squeezed", "memory", "480", "2")
    cluster.until("it is evicted", lambda: cluster.status("squeezed")["phase"] == "Failed")
    assert seen(cluster, "squeezed") == ("Failed", "Evicted", "TerminationByKubelet")
    cluster.run("late", "pause", spec={"nodeName": SECOND})
    cluster.until("it is turned away", lambda: cluster.status("late")["phase"] == "Failed")
    assert seen(cluster, "late") == ("Failed", "Evicted", "")
    assert cluster.status("late")["message"].startswith("Pod was rejected: The node had condition: [MemoryPressure]")
    assert not cluster.status("late").get("containerStatuses")
    cluster.second.restart_kubelet()
    cluster.until("its pods have all memory", lambda: memory(cluster, "allocatable") != "400Mi")


def test_a_node_that_is_short_of_disk_evicts_and_turns_away(cluster: Cluster) -> None:
    hard = {"nodefs.available": "50%"}
    with cluster.second.on_a_disk_of(256, evictionHard=hard, evictionPressureTransitionPeriod="5m") as disk:
        start(cluster, "crowded", "stubborn")
        (disk / "filler").write_bytes(bytes(160 << 20))
        cluster.until("it is evicted", lambda: cluster.status("crowded")["phase"] == "Failed")
        assert seen(cluster, "crowded") == ("Failed", "Evicted", "TerminationByKubelet")
        assert cluster.status("crowded")["message"].startswith("The node was low on resource: ephemeral-storage.")
        cluster.run("late", "pause", spec={"nodeName": SECOND})
        cluster.until("it is turned away", lambda: cluster.status("late")["phase"] == "Failed")
        assert seen(cluster, "late") == ("Failed", "Evicted", "")
        assert cluster.status("late")["message"].startswith("Pod was rejected: The node had condition: [DiskPressure]")
    cluster.until("the node has room", lambda: pressure(cluster) == "False")


def test_a_kubelet_that_starts_anew_ends_pods_that_it_would_not_take_now(cluster: Cluster) -> None:
    node = cluster.second
    spec = {"nodeSelector": {"test": "here"}}
    cluster.kubectl("label", "node", node.name, "test=here")
    start(cluster, "obeys", spec=spec)
    start(cluster, "outlives", "stubborn", spec=spec)
    cluster.kubectl("label", "node", node.name, "test-")
    assert seen(cluster, "obeys") == seen(cluster, "outlives") == ("Running", "", "")
    node.restart_kubelet()
    cluster.until("one has failed", lambda: cluster.status("outlives")["phase"] == "Failed")
    assert seen(cluster, "outlives") == ("Failed", "NodeAffinity", "")
    assert state(cluster.status("outlives")) == ("terminated", "Error", 137)
    assert cluster.status("outlives")["message"].startswith("Pod was rejected: ")
    # What exits with 0 looks as if nothing but its work had ended it.
    cluster.until("the other one has ended", lambda: cluster.status("obeys")["phase"] != "Running")
    assert seen(cluster, "obeys") == ("Succeeded", "", "")
    assert state(cluster.status("obeys")) == ("terminated", "Completed", 0)


def test_a_critical_pod_takes_the_place_of_another(cluster: Cluster) -> None:
    most = {"resources": {"requests": {"cpu": str(int(cluster.node(SECOND)["status"]["capacity"]["cpu"]) - 0.5)}}}
    start(cluster, "ousted", "stubborn", **most)
    critical = {"nodeName": SECOND, "priorityClassName": "system-node-critical"}
    cluster.run("critical", "pause", spec=critical, **most)
    cluster.until("it makes room", lambda: cluster.status("ousted")["phase"] == "Failed")
    assert seen(cluster, "ousted") == ("Failed", "Preempting", "TerminationByKubelet")


def test_a_taint_deletes_with_a_condition_while_the_pod_ends(cluster: Cluster) -> None:
    start(cluster, "tainted", "stubborn", spec={"terminationGracePeriodSeconds": 20})
    cluster.kubectl("taint", "node", SECOND, "maintenance=now:NoExecute")
    cluster.until("the condition is there", lambda: disruption(cluster.status("tainted")))
    cluster.kubectl("taint", "node", SECOND, "maintenance-")
    assert seen(cluster, "tainted") == ("Running", "", "DeletionByTaintManager")


def test_a_drain_replaces_the_pod_of_a_job_and_counts_as_the_nodes(cluster: Cluster) -> None:
    begin_on_the_second(cluster, "moves")
    before = uid(cluster, "moves-trainer-0")
    cluster.kubectl("drain", SECOND, "--force", "--timeout=200s")
    cluster.until("the pod is made anew", lambda: uid(cluster, "moves-trainer-0") not in ("", before))
    # It may run on this node alone.
    cluster.kubectl("uncordon", SECOND)
    runs_again(cluster, "moves", "node")


def test_a_lost_node_counts_as_the_nodes_and_is_used_again_when_it_is_back(cluster: Cluster) -> None:
    begin_on_the_second(cluster, "stays")
    before = uid(cluster, "stays-trainer-0")
    cluster.second.cut_power()
    cluster.until("the node is unknown", lambda: readiness(cluster) == ("Unknown", "NodeStatusUnknown"))
    cluster.until("the operator gives the pod up", lambda: uid(cluster, "stays-trainer-0") != before)
    taints = {taint["key"] for taint in cluster.node(SECOND)["spec"]["taints"]}
    assert "node.kubernetes.io/unreachable" in taints
    cluster.second.power_on()
    runs_again(cluster, "stays", "node")


def test_a_node_that_is_deleted_takes_its_pods_with_a_condition(cluster: Cluster) -> None:
    start(cluster, "orphan")
    cluster.kubectl("patch", "pod", "orphan", "-p", '{"metadata":{"finalizers":["example.com/look"]}}')
    # It would make the node again; it does when it starts.
    cluster.second.kubelet.stop(0)
    cluster.kubectl("delete", "node", SECOND)
    cluster.until("it is given up", lambda: disruption(cluster.status("orphan")))
    assert seen(cluster, "orphan") == ("Failed", "", "DeletionByPodGC")
    cluster.kubectl("patch", "pod", "orphan", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    cluster.second.kubelet.start()


def test_a_node_that_shuts_down_ends_its_pods_and_turns_others_away(cluster: Cluster) -> None:
    with cluster.machine.logind() as logind:
        cluster.second.restart_kubelet(shutdownGracePeriod="20s", shutdownGracePeriodCriticalPods="5s")
        begin_on_the_second(cluster, "shuts")
        start(cluster, "shut", "stubborn")
        before = uid(cluster, "shuts-trainer-0")
        os.kill(logind.pid, signal.SIGUSR1)
        cluster.until("its pod has ended", lambda: cluster.status("shut")["phase"] == "Failed")
        assert seen(cluster, "shut") == ("Failed", "Terminated", "TerminationByKubelet")
        cluster.until("it is not Ready", lambda: readiness(cluster) == ("False", "KubeletNotReady"))
        cluster.run("late", "pause", spec={"nodeName": SECOND})
        cluster.until("a pod is turned away", lambda: cluster.status("late")["phase"] == "Failed")
        assert seen(cluster, "late") == ("Failed", "NodeShutdown", "")
        assert cluster.status("late")["message"].startswith("Pod was rejected: ")
        cluster.until("the job's pod is given up", lambda: uid(cluster, "shuts-trainer-0") != before)
        os.kill(logind.pid, signal.SIGUSR2)
        # The program of its pod ended with 0 when it was told to: that is no success.
        runs_again(cluster, "shuts", "node")
    cluster.second.restart_kubelet()


def test_devices_are_away_while_their_plugin_is_and_containers_run_on(cluster: Cluster) -> None:
    def devices() -> tuple[str, str]:
        status = cluster.node(cluster.second.name)["status"]
        return status["capacity"].get(GPU, ""), status["allocatable"].get(GPU, "")

    def health() -> list[Json]:
        return [c.get("allocatedResourcesStatus", []) for c in cluster.status("uses")["containerStatuses"]]

    with cluster.machine.plugin(GPU, 2):
        cluster.until("there are devices", lambda: devices() == ("2", "2"))
        start(cluster, "uses", resources={"limits": {GPU: "1"}})
        before = health()
    cluster.until("they are away", lambda: devices() == ("2", "0"))
    assert (seen(cluster, "uses"), health()) == (("Running", "", ""), before)
    with cluster.machine.plugin(GPU, 2):
        cluster.until("they are back", lambda: devices() == ("2", "2"))
    assert seen(cluster, "uses") == ("Running", "", "")


def test_a_static_pod_runs_on_when_it_is_deleted_and_ends_with_its_file(cluster: Cluster) -> None:
    node = cluster.second
    main = {"name": "main", "image": TOOL, "args": ["pause"]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "fixed"}, "spec": {"containers": [main]}}
    file = node.static_pods / "fixed.json"
    file.write_text(json.dumps(pod), encoding="utf-8")
    name = f"fixed-{node.name}"
    cluster.until("it runs", lambda: found(cluster, name).get("status", {}).get("phase") == "Running")
    first = found(cluster, name)
    assert [owner["kind"] for owner in first["metadata"]["ownerReferences"]] == ["Node"]
    cluster.kubectl("delete", "pod", name, "--wait=false")
    cluster.until("it is shown again", lambda: uid(cluster, name) not in ("", first["metadata"]["uid"]))
    cluster.until("with its end", lambda: found(cluster, name).get("status", {}).get("phase") == "Running")
    ids = [[c["containerID"] for c in p["status"]["containerStatuses"]] for p in (first, found(cluster, name))]
    assert ids[0] == ids[1]
    file.unlink()
    cluster.until("it is gone", lambda: not found(cluster, name))


# -- jobs on the second node -----------------------------------------------------------------------
def begin_on_the_second(cluster: Cluster, name: str) -> None:
    trainer = {**role(["pause"]), "restartPolicy": "OnNodeFail", "restartScope": "Pod"}
    trainer["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": cluster.second.name}
    apply(cluster, name, {"trainer": trainer})
    cluster.until(f"{name} runs", lambda: phase(cluster, name) == "Running")


def runs_again(cluster: Cluster, name: str, cause: str) -> None:
    """After one restart of its pod, which counts for this cause alone."""
    cluster.until(f"{name} runs again", lambda: phase(cluster, name) == "Running")
    counts = cluster.job(name)["status"]["restartCounts"]["trainer"]
    assert {why: count for why, count in counts.items() if count} == {cause: 1}
    cluster.kubectl("delete", "aitj", name)


def readiness(cluster: Cluster) -> tuple[str, str]:
    (ready,) = [c for c in cluster.node(SECOND)["status"]["conditions"] if c["type"] == "Ready"]
    return ready["status"], ready["reason"]


def pressure(cluster: Cluster) -> str:
    (disk,) = [c for c in cluster.node(SECOND)["status"]["conditions"] if c["type"] == "DiskPressure"]
    return str(disk["status"])


def found(cluster: Cluster, name: str) -> Json:
    """The pod; {} while there is none."""
    pod: Json = json.loads(cluster.kubectl("get", "pod", name, "--ignore-not-found", "-o", "json") or "{}")
    return pod


def uid(cluster: Cluster, name: str) -> str:
    """'' while there is no such pod."""
    return str(found(cluster, name).get("metadata", {}).get("uid", ""))
