"""A gang that the cluster could never have room for is told so, with the numbers; whoever may fit one day is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from tests.support.builders import make_job, make_node, make_pod, observe
from tests.support.builders.job import JobBuilder
from tests.unit.tjworker.reconcile.passes import NOW, condition, status_of
from tests.unit.tjworker.reconcile.test_pod_group import group, rules
from tjworker.api.needs import EveryNode
from tjworker.api.observed import NodeRecord
from tjworker.api.resources import POD_GROUPS
from tjworker.reconcile import Plan, reconcile
from tjworker.reconcile.pod_group import gang_size

GPU = "nvidia.com/gpu"
REFUSED = "0/3 nodes are available: 3 Insufficient cpu."


def asking(replicas: int, name: str = "trainer", *, job: JobBuilder | None = None, **requests: str) -> JobBuilder:
    resources = {GPU if name == "gpu" else name: amount for name, amount in requests.items()}
    container = {"name": "aitj-main", "image": "x", "resources": {"requests": resources}}
    return (job or make_job()).role(name, replicas, template={"spec": {"containers": [container]}})


def elastic(least: int, replicas: int, **requests: str) -> JobBuilder:
    container = {"name": "aitj-main", "image": "x", "resources": {"requests": requests}}
    template = {"spec": {"containers": [container]}}
    return make_job().role("trainer", replicas, minReplicas=least, maxReplicas=99, template=template)


def nodes(number: int, **allocatable: str) -> dict[str, NodeRecord]:
    return {f"n{i}": make_node(f"n{i}", **allocatable).build() for i in range(number)}


@dataclass(frozen=True)
class Case:
    job: JobBuilder
    want: str
    """In the message; '' where nothing is said of the cluster."""
    cluster: Mapping[str, NodeRecord] = field(default_factory=lambda: nodes(3, cpu="8"))


CASES: dict[str, Case] = {
    "As many as there is room for": Case(asking(6, cpu="4"), ""),
    "One more": Case(
        asking(7, cpu="4"), "the 7 pods that must start together: they request cpu 28, and all 3 nodes have 24"
    ),
    "Of one node": Case(asking(3, cpu="4"), "they request cpu 12, and the only node has 8", nodes(1, cpu="8")),
    "More than a Ti, without an exponent": Case(
        asking(4, memory="1040Gi"), "they request memory 4160Gi, and all 2 nodes have 4000Gi", nodes(2, memory="2000Gi")
    ),
    "A few bytes too much, as system pods have them": Case(
        asking(2, memory="256Gi"),
        "they request memory 512Gi, and the only node has 511.9995Gi",
        nodes(1, memory="536870400Ki"),
    ),
    "A thousandth of a CPU": Case(
        asking(3, cpu="1.334"), "they request cpu 4.002, and the only node has 4.001", nodes(1, cpu="4001m")
    ),
    "The one pod that must start": Case(
        asking(1, cpu="10", memory="1Gi"),
        "no room for the one pod that must start: it is of role trainer, with cpu 10, memory 1Gi, and 3 nodes take 0",
    ),
    "More GPUs than there are": Case(
        asking(4, gpu="8"), "they request nvidia.com/gpu 32, and all 2 nodes have 16", nodes(2, **{GPU: "8"})
    ),
    "A GPU where no node has any": Case(asking(1, gpu="1"), "it requests nvidia.com/gpu 1, and all 3 nodes have 0"),
    "More pods than the nodes take": Case(asking(7), "they request pods 7, and all 2 nodes have 6", nodes(2, pods="3")),
    "The sum would do, but not node by node": Case(
        asking(4, cpu="5"), "4 of them are of role trainer, each with cpu 5, and 3 nodes take 3"
    ),
    "minAvailable of them would fit": Case(asking(8, cpu="4").run_policy(schedulingPolicy={"minAvailable": 6}), ""),
    "Not even minAvailable": Case(
        asking(9, cpu="4").run_policy(schedulingPolicy={"minAvailable": 7}), "the 7 pods that must start together"
    ),
    "The least number of an elastic role would fit": Case(elastic(6, 9, cpu="4"), ""),
    "Not even that": Case(elastic(7, 9, cpu="4"), "they request cpu 28"),
    "Of several roles those that ask for less may come first": Case(
        asking(4, "ps", job=asking(4, cpu="8"), cpu="1").run_policy(schedulingPolicy={"minAvailable": 6}), ""
    ),
    "A launcher comes after its workers, and may ask for what they leave": Case(
        asking(1, "launcher", job=asking(6, "worker", job=make_job().spec(frameworkType="mpi"), cpu="4"), cpu="9"), ""
    ),
    "A small launcher makes no room for its workers": Case(
        asking(1, "launcher", job=asking(7, "worker", job=make_job().spec(frameworkType="mpi"), cpu="4"), cpu="0"),
        "the 7 pods that must start together: they request cpu 28",
    ),
    "A cluster without nodes may make them when they are asked for": Case(asking(7, cpu="4"), "", {}),
    "A node that has not said what it has": Case(
        asking(7, cpu="4"), "", {"n": replace(make_node("n").build(), allocatable={})}
    ),
}


def passes(case: Case, unschedulable: str = REFUSED, placed: int = 0) -> tuple[Plan, Plan]:
    """Before and after all nodes were asked for. Every pod is there, and waits for a node."""
    job = case.job.build()
    pods = [make_pod(job, role.name, i).but(pod_group="digits") for role in job.roles for i in range(role.replicas)]
    seen = [pod.on("n0") if i < placed else pod.but(unschedulable=unschedulable) for i, pod in enumerate(pods)]
    view = replace(observe(*seen), pod_groups={POD_GROUPS: (group(job, gang_size(job)),)})
    first = reconcile(job, view, NOW, rules("kubernetes"))
    return first, reconcile(job, replace(view, every_node=case.cluster), NOW, rules("kubernetes"))


@pytest.mark.parametrize("sentence", CASES)
def test_whether_the_cluster_could_ever_have_the_room(sentence: str) -> None:
    case = CASES[sentence]
    first, then = passes(case)
    assert first.needs == (EveryNode(),), "what it says hangs on all nodes"
    _, reason, message = condition(status_of(then), "Running")
    assert REFUSED in message, "the scheduler's words stay"
    assert reason == ("GangTooLarge" if case.want else "Unschedulable")
    assert case.want in message
    assert ("even empty" in message) == bool(case.want)
    assert [event.reason for event in then.events] == [reason]


def test_a_gang_that_holds_a_node_or_that_no_scheduler_has_refused_is_not_judged() -> None:
    case = CASES["One more"]
    for plan in (*passes(case, unschedulable=""), *passes(case, placed=1)):
        assert EveryNode() not in plan.needs
        assert "even empty" not in condition(status_of(plan), "Running")[2]


def test_an_event_tells_when_the_cluster_has_become_too_small_and_when_it_may_do_again() -> None:
    """The condition's reason changes, and with it comes an event; other numbers alone are none."""
    large, small = CASES["As many as there is room for"], nodes(2, cpu="8")
    job = large.job.build()
    pods = [make_pod(job, "trainer", i).but(pod_group="digits", unschedulable=REFUSED) for i in range(6)]
    view = replace(observe(*pods), pod_groups={POD_GROUPS: (group(job, 6),)})
    told = []
    for cluster in (large.cluster, small, nodes(1, cpu="8"), large.cluster):
        plan = reconcile(job, replace(view, every_node=cluster), NOW, rules("kubernetes"))
        told.append([event.reason for event in plan.events])
        job = replace(job, status=plan.status or job.status)
    assert told == [["Unschedulable"], ["GangTooLarge"], [], ["Unschedulable"]]


NEWS = {
    "the cluster has less room": (nodes(2, cpu="4"), REFUSED, True),
    "the scheduler counts other nodes": (nodes(2, cpu="8"), REFUSED.replace("3", "2"), False),
}


@pytest.mark.parametrize(("cluster", "refused", "is_written"), NEWS.values(), ids=NEWS)
def test_a_number_is_written_if_it_says_by_how_much_the_gang_is_too_large(
    cluster: dict[str, NodeRecord], refused: str, is_written: bool
) -> None:
    job = CASES["As many as there is room for"].job.build()
    pods = [make_pod(job, "trainer", i).but(pod_group="digits", unschedulable=REFUSED) for i in range(6)]
    view = replace(observe(*pods), pod_groups={POD_GROUPS: (group(job, 6),)}, every_node=nodes(2, cpu="8"))
    job = replace(job, status=status_of(reconcile(job, view, NOW, rules("kubernetes"))))
    later = observe(*(pod.but(unschedulable=refused) for pod in pods))
    view = replace(later, pod_groups=view.pod_groups, every_node=cluster)
    assert (reconcile(job, view, NOW, rules("kubernetes")).status is not None) is is_written
