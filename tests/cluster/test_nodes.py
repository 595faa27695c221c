"""What is written of pods when something happens to their node: docs/internals/kubelet.md, on a second node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.cluster import SECOND, Cluster, Json, disruption, state
from tests.cluster.test_jobs import apply, phase, role

PRESSURE = {"evictionHard": {"memory.available": "99%"}, "evictionPressureTransitionPeriod": "1s"}
"""A threshold that no machine is on the right side of."""
CALM = {"evictionHard": {"memory.available": "50Mi"}}
LOST_SECONDS = 300.0


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


def test_after_a_power_cut_the_end_of_a_container_is_unknown(cluster: Cluster) -> None:
    start(cluster, "cut")
    cluster.second.cut_power()
    cluster.second.power_on()
    cluster.until("the pod has ended", lambda: cluster.status("cut")["phase"] == "Failed")
    assert state(cluster.status("cut")) == ("terminated", "Unknown", 255)
    assert seen(cluster, "cut") == ("Failed", "", "")


def test_a_node_that_is_short_of_memory_evicts_and_turns_away(cluster: Cluster) -> None:
    start(cluster, "squeezed")
    cluster.second.restart_kubelet(**PRESSURE)
    cluster.until("it is evicted", lambda: cluster.status("squeezed")["phase"] == "Failed")
    assert seen(cluster, "squeezed") == ("Failed", "Evicted", "TerminationByKubelet")
    cluster.run("late", "pause", spec={"nodeName": SECOND, "tolerations": [{"operator": "Exists"}]})
    cluster.until("it is turned away", lambda: cluster.status("late")["phase"] == "Failed")
    assert seen(cluster, "late")[:2] == ("Failed", "Evicted")
    assert cluster.status("late")["message"].startswith("Pod was rejected: The node had condition: [MemoryPressure]")
    assert not cluster.status("late").get("containerStatuses")
    cluster.second.restart_kubelet(**CALM)


def test_a_critical_pod_takes_the_place_of_another(cluster: Cluster) -> None:
    most = {"resources": {"requests": {"cpu": str(int(cluster.node(SECOND)["status"]["capacity"]["cpu"]) - 0.5)}}}
    start(cluster, "ousted", **most)
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


def test_a_node_that_is_lost_costs_a_job_no_restart_and_its_old_pod_is_gone_when_it_is_back(cluster: Cluster) -> None:
    node = cluster.second
    selector = {"nodeSelector": {"kubernetes.io/hostname": node.name}}
    apply(cluster, "stays", {"trainer": placed(role(["pause"]), selector)})
    cluster.until("it runs", lambda: phase(cluster, "stays") == "Running")
    node.cut_power()
    cluster.until("the node is unknown", lambda: readiness(cluster) == ("Unknown", "NodeStatusUnknown"), LOST_SECONDS)
    lost = {t["key"]: t["effect"] for t in cluster.node(SECOND)["spec"]["taints"]}
    assert lost["node.kubernetes.io/unreachable"] in ("NoSchedule", "NoExecute")
    uid = pod(cluster, "stays-trainer-0")["metadata"]["uid"]
    cluster.until(
        "the operator gives the pod up",
        lambda: pod(cluster, "stays-trainer-0").get("metadata", {}).get("uid") != uid,
        LOST_SECONDS,
    )
    node.power_on()
    cluster.until("the job runs again", lambda: phase(cluster, "stays") == "Running", LOST_SECONDS)
    status = cluster.job("stays")["status"]
    assert status.get("restartCounts", {}) == {} or set(status["restartCounts"].values()) == {0}, status
    assert pod(cluster, "stays-trainer-0")["metadata"]["uid"] != uid
    cluster.kubectl("delete", "aitj", "stays")


def test_a_node_that_is_deleted_takes_its_pods_with_a_condition(cluster: Cluster) -> None:
    """The last one: its kubelet makes the node again only when it starts anew."""
    start(cluster, "orphan")
    cluster.kubectl("patch", "pod", "orphan", "-p", '{"metadata":{"finalizers":["example.com/look"]}}')
    cluster.second.kubelet.stop(0)
    cluster.kubectl("delete", "node", SECOND)
    cluster.until("it is given up", lambda: disruption(cluster.status("orphan")), LOST_SECONDS)
    assert seen(cluster, "orphan") == ("Failed", "", "DeletionByPodGC")
    cluster.kubectl("patch", "pod", "orphan", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    cluster.second.kubelet.start()


def placed(made: Json, spec: Json) -> Json:
    made["template"]["spec"].update(spec)
    return made


def readiness(cluster: Cluster) -> tuple[str, str]:
    (found,) = [c for c in cluster.node(SECOND)["status"]["conditions"] if c["type"] == "Ready"]
    return found["status"], found["reason"]


def pod(cluster: Cluster, name: str) -> Json:
    found: Json = json.loads(cluster.kubectl("get", "pod", name, "--ignore-not-found", "-o", "json") or "{}")
    return found
