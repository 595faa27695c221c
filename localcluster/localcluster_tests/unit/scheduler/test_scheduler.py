"""The node of a pod, why it has none, which pods make room, and gangs; in virtual time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.kubelet.node import NodeConfig
from localcluster.objects import condition
from localcluster.wire import Json
from localcluster_tests.unit.world import PODS, conditions, events, fake, pod, pods

TOLERATE_ALL = [{"operator": "Exists"}]


def verdict(obj: Json) -> str:
    """The node, or the message of PodScheduled=False."""
    scheduled = condition(obj, "PodScheduled")
    return str(obj["spec"].get("nodeName") or (scheduled or {}).get("message", ""))


def affinity(*expressions: Json) -> Json:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": list(expressions)}]
            }
        }
    }


@dataclass(frozen=True)
class Case:
    pod: Json
    want: str
    nodes: list[NodeConfig] = field(
        default_factory=lambda: [NodeConfig("a", cpu="4"), NodeConfig("b", cpu="8", gpus=2, labels={"zone": "x"})]
    )
    taint: Json | None = None
    """Put on node b."""
    cordon: bool = False


NO_HELP = (
    "no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)

CASES: dict[str, Case] = {
    "It goes where the most room is left": Case(pod("p", cpu="2"), "b"),
    "A pod that asks for a GPU goes where one is": Case(pod("p", gpus=1), "b"),
    "The node selector decides": Case(pod("p", nodeSelector={"kubernetes.io/hostname": "a"}), "a"),
    "Node affinity decides": Case(pod("p", affinity=affinity({"key": "zone", "operator": "DoesNotExist"})), "a"),
    "Too much CPU for every node": Case(pod("p", cpu="9"), f"0/2 nodes are available: 2 Insufficient cpu. {NO_HELP}"),
    "Too much CPU for one node and no GPU on it": Case(
        pod("p", cpu="9", gpus=1),
        f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 2 Insufficient cpu. {NO_HELP}",
    ),
    "A taint that the pod does not tolerate, and a node too small": Case(
        pod("p", cpu="6"),
        f"0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). {NO_HELP}",
        taint={"key": "k", "effect": "NoSchedule"},
    ),
    "A taint that the pod tolerates": Case(
        pod("p", cpu="6", tolerations=TOLERATE_ALL), "b", taint={"key": "k", "effect": "NoSchedule"}
    ),
    "PreferNoSchedule only turns away": Case(pod("p"), "a", taint={"key": "k", "effect": "PreferNoSchedule"}),
    "A cordoned node takes none": Case(pod("p"), "a", cordon=True),
    "No nodes at all": Case(pod("p"), "no nodes available to schedule pods", nodes=[]),
    "A pod of another scheduler is left alone": Case(pod("p", schedulerName="mine"), ""),
}


@pytest.mark.parametrize("name", CASES)
def test_where_a_pod_goes(name: str) -> None:
    case = CASES[name]
    cluster = LocalCluster(nodes=case.nodes)
    if case.taint:
        cluster.client.patch("/api/v1/nodes/b", {"spec": {"taints": [case.taint]}})
    if case.cordon:
        cluster.client.patch("/api/v1/nodes/b", {"spec": {"unschedulable": True}})
    cluster.run_until_idle()
    cluster.client.create(PODS, case.pod)
    cluster.run_until_idle()
    shown = cluster.client.get(f"{PODS}/p")
    assert verdict(shown) == case.want


def test_pods_without_requests_spread_over_the_nodes() -> None:
    cluster = LocalCluster(nodes=3)
    for number in range(9):
        cluster.client.create(PODS, pod(f"p{number}"))
    cluster.run_until_idle()
    assert sorted(p["spec"]["nodeName"] for p in pods(cluster)) == ["node-0"] * 3 + ["node-1"] * 3 + ["node-2"] * 3


def test_a_pod_that_fits_nowhere_is_told_once_and_placed_when_room_comes() -> None:
    cluster = LocalCluster(nodes=[NodeConfig("a", cpu="2")])
    cluster.client.create(PODS, pod("first", cpu="2", annotations=fake(run_seconds=100)))
    cluster.client.create(PODS, pod("second", cpu="1"))
    cluster.advance(50)
    assert conditions(cluster.client.get(f"{PODS}/second")) == {"PodScheduled": "False/Unschedulable"}
    words = (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "no new claims to deallocate, preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    assert events(cluster, "second") == [f"FailedScheduling: {words}"]
    cluster.advance(60)
    assert cluster.client.get(f"{PODS}/second")["spec"]["nodeName"] == "a"
    assert events(cluster, "second")[1] == "Scheduled: Successfully assigned default/second to a"


def test_higher_priority_goes_first_when_room_comes() -> None:
    cluster = LocalCluster(nodes=[NodeConfig("a", cpu="1")])
    priority_class(cluster, "high", 1000)
    priority_class(cluster, "never", 2000, preemptionPolicy="Never")
    cluster.client.create(PODS, pod("runs", cpu="1", annotations=fake(run_seconds=50), priorityClassName="never"))
    cluster.run_until_idle()
    cluster.client.create(PODS, pod("low", cpu="1"))
    cluster.client.create(PODS, pod("high", cpu="1", priorityClassName="high"))
    cluster.advance(60)
    assert verdict(cluster.client.get(f"{PODS}/high")) == "a"
    assert "Insufficient cpu" in verdict(cluster.client.get(f"{PODS}/low"))


def priority_class(cluster: LocalCluster, name: str, value: int, **more: Any) -> None:
    cluster.client.create(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **more,
        },
    )
    cluster.run_until_idle()


def test_a_pod_of_higher_priority_preempts_the_fewest_and_least_important() -> None:
    cluster = LocalCluster(nodes=[NodeConfig("a", cpu="4"), NodeConfig("b", cpu="4")])
    for name, value in (("low", 10), ("middle", 20), ("high", 1000)):
        priority_class(cluster, name, value)
    for name, node, cpu, priority in (("m1", "a", "4", "middle"), ("l1", "b", "2", "low"), ("l2", "b", "2", "low")):
        cluster.client.create(
            PODS,
            pod(
                name,
                cpu=cpu,
                priorityClassName=priority,
                nodeSelector={"kubernetes.io/hostname": node},
                annotations=fake(terminate_seconds=5),
            ),
        )
    cluster.run_until_idle()
    urgent = cluster.client.create(PODS, pod("urgent", cpu="2", priorityClassName="high"))
    cluster.run_until_idle()
    waiting = cluster.client.get(f"{PODS}/urgent")
    assert waiting["status"]["nominatedNodeName"] == "b"
    victims = [p for p in pods(cluster) if "deletionTimestamp" in p["metadata"]]
    assert len(victims) == 1
    assert victims[0]["metadata"]["name"] in ("l1", "l2")
    assert conditions(victims[0])["DisruptionTarget"] == "True/PreemptionByScheduler"
    assert f"Preempted: Preempted by pod {urgent['metadata']['uid']} on node b" in events(
        cluster, victims[0]["metadata"]["name"]
    )
    # What was freed for it is not given to a pod of lower priority that comes meanwhile.
    cluster.client.create(PODS, pod("thief", cpu="2"))
    cluster.advance(6)
    assert verdict(cluster.client.get(f"{PODS}/urgent")) == "b"
    assert "Insufficient cpu" in verdict(cluster.client.get(f"{PODS}/thief"))


def test_room_that_is_freed_bit_by_bit_is_kept_for_the_pod_that_preempted() -> None:
    cluster = LocalCluster(nodes=[NodeConfig("a", cpu="4")])
    priority_class(cluster, "high", 1000)
    for name, seconds in (("quick", 1), ("slow", 20)):
        cluster.client.create(PODS, pod(name, cpu="2", annotations=fake(terminate_seconds=seconds)))
    cluster.run_until_idle()
    cluster.client.create(PODS, pod("urgent", cpu="4", priorityClassName="high"))
    cluster.advance(5)
    cluster.client.create(PODS, pod("thief", cpu="2"))
    cluster.advance(5)
    assert "nodeName" not in cluster.client.get(f"{PODS}/thief")["spec"]
    cluster.advance(15)
    assert verdict(cluster.client.get(f"{PODS}/urgent")) == "a"


def test_preemption_policy_never_waits() -> None:
    cluster = LocalCluster(nodes=[NodeConfig("a", cpu="1")])
    priority_class(cluster, "polite", 1000, preemptionPolicy="Never")
    cluster.client.create(PODS, pod("low", cpu="1"))
    cluster.run_until_idle()
    cluster.client.create(PODS, pod("polite", cpu="1", priorityClassName="polite"))
    cluster.run_until_idle()
    assert verdict(cluster.client.get(f"{PODS}/polite")) == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never."
    )
    assert "deletionTimestamp" not in cluster.client.get(f"{PODS}/low")["metadata"]


def gang_crd() -> Json:
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.volcano.sh"},
        "spec": {
            "group": "scheduling.volcano.sh",
            "scope": "Namespaced",
            "names": names,
            "versions": [
                {
                    "name": "v1beta1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }


def gang_cluster(cpu: str, minimum: int) -> LocalCluster:
    cluster = LocalCluster(nodes=[NodeConfig("a", cpu=cpu)])
    cluster.client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", gang_crd())
    cluster.run_until_idle()
    cluster.client.create(
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g"},
            "spec": {"minMember": minimum},
        },
    )
    cluster.run_until_idle()
    return cluster


def member(name: str) -> Json:
    return pod(name, cpu="1", annotations={"scheduling.k8s.io/group-name": "g"}, schedulerName="volcano")


@dataclass(frozen=True)
class Gang:
    cpu: str
    minimum: int
    pods: int
    want_bound: int


GANGS: dict[str, Gang] = {
    "All of a gang fit: all are placed": Gang("4", 3, 3, 3),
    "Fewer pods than minMember are there: none is placed": Gang("4", 3, 2, 0),
    "Too little room for minMember: none is placed": Gang("2", 3, 3, 0),
    "Room for minMember but not for all: those that fit are placed": Gang("3", 3, 4, 3),
}


@pytest.mark.parametrize("name", GANGS)
def test_gangs_are_placed_together_or_not_at_all(name: str) -> None:
    case = GANGS[name]
    cluster = gang_cluster(case.cpu, case.minimum)
    for number in range(case.pods):
        cluster.client.create(PODS, member(f"m{number}"))
        cluster.run_until_idle()
    assert sum(bool(p["spec"].get("nodeName")) for p in pods(cluster)) == case.want_bound
    if not case.want_bound:
        assert all(conditions(p)["PodScheduled"] == "False/Unschedulable" for p in pods(cluster))


def test_a_gang_that_waits_holds_no_room_and_goes_when_there_is_enough() -> None:
    cluster = gang_cluster("3", 3)
    cluster.client.create(PODS, pod("other", cpu="1", annotations=fake(run_seconds=30)))
    cluster.run_until_idle()
    for number in range(3):
        cluster.client.create(PODS, member(f"m{number}"))
    cluster.advance(10)
    assert sum(bool(p["spec"].get("nodeName")) for p in pods(cluster)) == 1
    cluster.client.create(PODS, pod("late", cpu="2", annotations=fake(run_seconds=5)))
    cluster.advance(10)
    assert cluster.client.get(f"{PODS}/late")["status"]["phase"] == "Succeeded"
    cluster.advance(20)
    assert sum(p["status"]["phase"] == "Running" for p in pods(cluster)) == 3


@pytest.mark.parametrize("seed", range(5))
def test_no_node_ever_holds_more_than_it_has(seed: int) -> None:
    rng = random.Random(seed)
    cluster = LocalCluster(
        seed=seed, nodes=[NodeConfig(f"n{n}", cpu=str(rng.randint(1, 6)), gpus=rng.randint(0, 2)) for n in range(4)]
    )
    priority_class(cluster, "high", 1000)
    for number in range(40):
        cluster.client.create(
            PODS,
            pod(
                f"p{number}",
                cpu=rng.choice(["500m", "1", "2"]),
                gpus=rng.randint(0, 1),
                annotations=fake(run_seconds=rng.randint(1, 30), terminate_seconds=rng.randint(0, 5)),
                priorityClassName="high" if rng.random() < 0.3 else None,
            ),
        )
        cluster.advance(rng.random() * 3)
        used: dict[str, float] = {}
        for each in pods(cluster):
            if each["spec"].get("nodeName") and each["status"]["phase"] not in ("Succeeded", "Failed"):
                cpu = each["spec"]["containers"][0]["resources"]["requests"]["cpu"]
                used[each["spec"]["nodeName"]] = used.get(each["spec"]["nodeName"], 0) + (
                    0.5 if cpu == "500m" else float(cpu)
                )
        have = {
            n["metadata"]["name"]: float(n["status"]["allocatable"]["cpu"])
            for n in cluster.client.get("/api/v1/nodes")["items"]
        }
        assert all(used[name] <= have[name] for name in used), f"seed {seed}: {used} of {have}"
