"""Which pods fit on which nodes: every combination, against the words of Kubernetes' documentation.

https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from localcluster.objects import pod_requests
from localcluster.scheduler.filters import FITS, fit_error, reasons_against, score
from localcluster.scheduler.nodeinfo import Demand, NodeInfo, demand_of
from localcluster.scheduler.preemption import Candidate, best, victims_on
from localcluster.wire import Json

MIB = 2**20


def node(name: str = "n", *, taints: list[Json] | None = None, **spec: Any) -> NodeInfo:
    made = NodeInfo(name)
    allocatable = spec.pop("allocatable", {"cpu": "4", "memory": "8Mi", "nvidia.com/gpu": "2", "pods": "3"})
    labels = spec.pop("labels", {})
    made.set_node(
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints or [], **spec},
            "status": {"allocatable": allocatable, "capacity": {"cpu": "999", "memory": "999Gi", "pods": "999"}},
        }
    )
    return made


def demand(name: str = "p", priority: int = 0, **spec: Any) -> Demand:
    meta = {"namespace": "d", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return demand_of({"metadata": meta, "spec": {"containers": [{"name": "c"}], **spec}}, priority)


def asking(name: str = "p", priority: int = 0, ports: list[Json] | None = None, **requests: str) -> Demand:
    gpus = {"nvidia.com/gpu": requests.pop("gpu")} if "gpu" in requests else {}
    containers = [{"name": "c", "ports": ports or [], "resources": {"requests": {**requests, **gpus}}}]
    return demand(name, priority, containers=containers)


def put(info: NodeInfo, demand: Demand, started: str = "2026-01-01T00:00:00Z") -> Json:
    pod = {"metadata": {"name": demand.key, "uid": demand.uid}, "spec": {}, "status": {"startTime": started}}
    info.add(demand, pod)
    return pod


# -- taints ----------------------------------------------------------------------------------------
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def documented(toleration: Json, taint: Json) -> bool:
    """'A toleration "matches" a taint if the keys are the same and the effects are the same', and: the operator is
    Exists, or it is Equal and the values are; an empty key with Exists matches all; an empty effect all effects."""
    same_effect = not toleration.get("effect") or toleration["effect"] == taint["effect"]
    if toleration.get("operator", "Equal") == "Exists":
        return same_effect and (not toleration.get("key") or toleration["key"] == taint["key"])
    return same_effect and toleration.get("key") == taint["key"] and toleration.get("value", "") == taint["value"]


def sparse(**fields: str | None) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


TOLERATIONS = [
    sparse(key=key, operator=operator, value=value, effect=effect)
    for key, operator, value, effect in product(
        (None, "gpu", "spot"), (None, "Equal", "Exists"), (None, "yes", "no"), (None, *EFFECTS)
    )
    if not (operator != "Exists" and key is None) and not (operator == "Exists" and value is not None)
]


def test_every_toleration_against_every_taint() -> None:
    for toleration, effect, value in product(TOLERATIONS, EFFECTS, ("yes", "")):
        taint = {"key": "gpu", "effect": effect, "value": value}
        want = effect == "PreferNoSchedule" or documented(toleration, taint)
        told = reasons_against(demand(tolerations=[toleration]), node(taints=[taint]))
        assert (told == FITS) is want, (toleration, taint)
        if not want:
            assert told.reasons == ("node(s) had untolerated taint(s)",)
            assert not told.resolvable, "no preemption takes a taint away"


@pytest.mark.parametrize("tolerated", range(3))
def test_each_taint_has_to_be_tolerated(tolerated: int) -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("a", "b")]
    pod = demand(tolerations=[{"key": key, "operator": "Exists"} for key in ("a", "b")[:tolerated]])
    assert (reasons_against(pod, node(taints=taints)) == FITS) is (tolerated == 2)


CORDONS: dict[str, tuple[list[Json], bool]] = {
    "nothing": ([], False),
    "everything": ([{"operator": "Exists"}], True),
    "a cordon": ([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], True),
    "a cordon, by its effect": (
        [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}],
        True,
    ),
    "being evicted alone": (
        [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}],
        False,
    ),
    "something else": ([{"key": "gpu", "operator": "Exists"}], False),
}


@pytest.mark.parametrize("what", CORDONS)
def test_a_cordoned_node_takes_who_tolerates(what: str) -> None:
    tolerations, want = CORDONS[what]
    told = reasons_against(demand(tolerations=tolerations), node(unschedulable=True))
    assert told.reasons == (() if want else ("node(s) were unschedulable",))
    assert told.resolvable is want


# -- node affinity ---------------------------------------------------------------------------------
LABELS: list[dict[str, str]] = [{}, {"zone": "x"}, {"zone": "y"}, {"zone": ""}, {"zone": "5"}, {"zone": "-3"}]
EXPRESSIONS: dict[tuple[str, tuple[str, ...]], list[bool]] = {
    # in the order of LABELS:    none   x      y      ''     5      -3
    ("In", ("x", "5")): [False, True, False, False, True, False],
    ("NotIn", ("x", "5")): [True, False, True, True, False, True],
    ("Exists", ()): [False, True, True, True, True, True],
    ("DoesNotExist", ()): [True, False, False, False, False, False],
    ("Gt", ("4",)): [False, False, False, False, True, False],
    ("Gt", ("5",)): [False, False, False, False, False, False],
    ("Lt", ("5",)): [False, False, False, False, False, True],
    ("Lt", ("6",)): [False, False, False, False, True, True],
    ("Lt", ("-3",)): [False, False, False, False, False, False],
}


def affinity(*terms: Json, preferred: list[Json] | None = None) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}} if terms else {}
    preference = {"preferredDuringSchedulingIgnoredDuringExecution": preferred} if preferred else {}
    return {"nodeAffinity": {**required, **preference}}


def expression(operator: str, values: tuple[str, ...] = (), key: str = "zone") -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(("operator", "values"), EXPRESSIONS)
def test_each_operator_of_node_affinity(operator: str, values: tuple[str, ...]) -> None:
    pod = demand(affinity=affinity({"matchExpressions": [expression(operator, values)]}))
    found = [reasons_against(pod, node(labels=labels)) == FITS for labels in LABELS]
    assert found == EXPRESSIONS[operator, values]


IN_X, IN_Y, HERE = expression("In", ("x",)), expression("In", ("y",)), expression("In", ("n",), "metadata.name")
TERMS: dict[str, tuple[list[Json], bool]] = {
    "expressions of one term hold together": ([{"matchExpressions": [IN_X, IN_Y]}], False),
    "one of several terms is enough": ([{"matchExpressions": [IN_Y]}, {"matchExpressions": [IN_X]}], True),
    "an empty term matches nothing": ([{}], False),
    "nor does it beside another": ([{}, {"matchExpressions": [IN_Y]}], False),
    "fields are the node's name": ([{"matchFields": [HERE]}], True),
    "another name": ([{"matchFields": [{**HERE, "values": ["m"]}]}], False),
    "fields and expressions of a term hold together": ([{"matchFields": [HERE], "matchExpressions": [IN_Y]}], False),
    "both hold": ([{"matchFields": [HERE], "matchExpressions": [IN_X]}], True),
}


@pytest.mark.parametrize("what", TERMS)
def test_terms_of_node_affinity(what: str) -> None:
    terms, want = TERMS[what]
    told = reasons_against(demand(affinity=affinity(*terms)), node(labels={"zone": "x"}))
    assert told.reasons == (() if want else ("node(s) didn't match Pod's node affinity/selector",))
    assert told.resolvable is want


@pytest.mark.parametrize("zone", ["x", "y"])
@pytest.mark.parametrize("disk", ["ssd", "hdd"])
def test_the_node_selector_and_the_affinity_both_hold(zone: str, disk: str) -> None:
    pod = demand(nodeSelector={"disk": "ssd"}, affinity=affinity({"matchExpressions": [IN_X]}))
    assert (reasons_against(pod, node(labels={"zone": zone, "disk": disk})) == FITS) is ((zone, disk) == ("x", "ssd"))


# -- room ------------------------------------------------------------------------------------------
ROOM: dict[str, tuple[str, str, str]] = {
    # resource: (just fits beside what is there, one more, in words)
    "cpu": ("1500m", "1501m", "Insufficient cpu"),
    "memory": ("3Mi", "3145729", "Insufficient memory"),
    "gpu": ("1", "2", "Insufficient nvidia.com/gpu"),
}


@pytest.mark.parametrize("resource", ROOM)
def test_a_node_is_filled_to_the_last_piece(resource: str) -> None:
    fits, more, words = ROOM[resource]
    info = node()
    put(info, asking("a", cpu="2500m", memory="5Mi", gpu="1"))
    assert reasons_against(asking(**{resource: fits}), info) == FITS
    told = reasons_against(asking(**{resource: more}), info)
    assert told.reasons == (words,)
    assert told.resolvable, "the node could hold it alone"


@pytest.mark.parametrize(("resource", "amount"), [("cpu", "4001m"), ("memory", "9Mi"), ("gpu", "3")])
def test_what_the_empty_node_cannot_hold_no_preemption_brings(resource: str, amount: str) -> None:
    assert not reasons_against(asking(**{resource: amount}), node()).resolvable


@pytest.mark.parametrize("order", [("cpu", "memory"), ("memory", "cpu")])
def test_nor_where_the_node_only_happens_to_be_full_of_another(order: tuple[str, str]) -> None:
    info = node()
    put(info, asking("a", cpu="4", memory="8Mi"))
    asked = {"cpu": "5", "memory": "1Mi"}
    told = reasons_against(asking(**{name: asked[name] for name in order}), info)
    assert (set(told.reasons), told.resolvable) == ({"Insufficient cpu", "Insufficient memory"}, False)


def test_what_a_pod_does_not_ask_for_is_not_missing() -> None:
    info = node(allocatable={"cpu": "1", "pods": "9"})
    put(info, asking("a", cpu="3"))
    assert reasons_against(asking(), info) == FITS
    assert reasons_against(asking(gpu="0"), info) == FITS


def test_a_node_takes_so_many_pods_and_no_more() -> None:
    info = node()
    for name in "ab":
        put(info, asking(name))
    assert reasons_against(asking(), info) == FITS
    put(info, asking("c"))
    assert reasons_against(asking(), info).reasons == ("Too many pods",)
    info.remove("d/b")
    assert reasons_against(asking(), info) == FITS


def test_room_that_was_promised_is_taken() -> None:
    assert reasons_against(asking(cpu="3"), node(), [asking("a", cpu="1")]) == FITS
    assert reasons_against(asking(cpu="3"), node(), [asking("a", cpu="1"), asking("b", cpu="1m")]).reasons


def test_a_pod_that_comes_again_is_counted_once() -> None:
    info = node()
    put(info, asking("a", cpu="3"))
    put(info, asking("a", cpu="1"))
    assert (info.requested["cpu"], len(info.pods)) == (1000, 1)


def test_a_copy_of_a_node_without_some_pods_leaves_the_node_as_it_is() -> None:
    info = node()
    put(info, asking("a", cpu="3"))
    assert info.without(["d/a"]).requested["cpu"] == 0
    assert (info.requested["cpu"], list(info.pods)) == (3000, ["d/a"])


PORTS: dict[str, tuple[Json, bool, bool]] = {
    # what the second asks for beside a TCP port 80 of the node: (port, on the node's network, fits)
    "the same": ({"containerPort": 1, "hostPort": 80}, False, False),
    "the same by another protocol": ({"containerPort": 1, "hostPort": 80, "protocol": "UDP"}, False, True),
    "another": ({"containerPort": 80, "hostPort": 81}, False, True),
    "none of the node": ({"containerPort": 80}, False, True),
    "none by name, but it is on the node's network": ({"containerPort": 80}, True, False),
}


@pytest.mark.parametrize("what", PORTS)
def test_a_port_of_a_node_is_taken_once(what: str) -> None:
    port, host, want = PORTS[what]
    info = node()
    put(info, asking("a", ports=[{"containerPort": 7, "hostPort": 80}]))
    pod = demand(containers=[{"name": "c", "ports": [port]}], hostNetwork=host)
    told = reasons_against(pod, info)
    assert told.reasons == (() if want else ("node(s) didn't have free ports for the requested pod ports",))
    assert told.resolvable, "who has the port may be preempted"


# -- what a pod asks for ---------------------------------------------------------------------------
def container(restart: str = "", limits: Json | None = None, **requests: str) -> Json:
    policy = {"restartPolicy": restart} if restart else {}
    return {"resources": {"requests": requests, "limits": limits or {}}, **policy}


ASKS: dict[str, tuple[Json, dict[str, int]]] = {
    "containers are added up": ({"containers": [container(cpu="1"), container(cpu="500m")]}, {"cpu": 1500}),
    "a limit without a request is asked for": ({"containers": [container(limits={"cpu": "2"})]}, {"cpu": 2000}),
    "a request below its limit is": ({"containers": [container(limits={"cpu": "2"}, cpu="1")]}, {"cpu": 1000}),
    "the largest init container, if it is larger": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="3"), container(cpu="2")]},
        {"cpu": 3000},
    ),
    "not when it is smaller": (
        {"containers": [container(cpu="4")], "initContainers": [container(cpu="3"), container(cpu="2")]},
        {"cpu": 4000},
    ),
    "each resource by itself": (
        {"containers": [container(cpu="4", memory="1")], "initContainers": [container(cpu="1", memory="5")]},
        {"cpu": 4000, "memory": 5},
    ),
    "a sidecar runs beside the containers": (
        {"containers": [container(cpu="2")], "initContainers": [container("Always", cpu="1")]},
        {"cpu": 3000},
    ),
    "and beside the init containers after it": (
        {"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="2"), container(cpu="4")]},
        {"cpu": 6000},
    ),
    "not beside those before it": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="4"), container("Always", cpu="2")]},
        {"cpu": 4000},
    ),
    "overhead comes on top": (
        {"containers": [container(cpu="1")], "initContainers": [container(cpu="3")], "overhead": {"cpu": "250m"}},
        {"cpu": 3250},
    ),
    "pieces of a byte are rounded up": ({"containers": [container(memory="1500m")]}, {"memory": 2}),
    "nothing": ({"containers": [{}]}, {}),
}


@pytest.mark.parametrize("what", ASKS)
def test_what_a_pod_asks_for(what: str) -> None:
    spec, want = ASKS[what]
    assert pod_requests({"spec": spec}) == want


# -- the better of two nodes -----------------------------------------------------------------------
BETTER: dict[str, tuple[NodeInfo, NodeInfo, Demand]] = {
    "more room": (node(), node(allocatable={"cpu": "2", "memory": "8Mi"}), asking(cpu="1", memory="1Mi")),
    "more memory, with CPUs alike": (node(), node(allocatable={"cpu": "4", "memory": "2Mi"}), asking(memory="1Mi")),
    "no taint that turns away": (
        node(),
        node(taints=[{"key": "k", "effect": "PreferNoSchedule"}], allocatable={"cpu": "40", "memory": "80Mi"}),
        asking(cpu="1"),
    ),
    "what it prefers": (
        node(labels={"zone": "x"}),
        node(),
        demand(affinity=affinity(preferred=[{"weight": 1, "preference": {"matchExpressions": [IN_X]}}])),
    ),
    "what it prefers more": (
        node(labels={"zone": "x"}),
        node(labels={"zone": "y"}),
        demand(
            affinity=affinity(
                preferred=[
                    {"weight": 1, "preference": {"matchExpressions": [IN_Y]}},
                    {"weight": 2, "preference": {"matchExpressions": [IN_X]}},
                ]
            )
        ),
    ),
}


@pytest.mark.parametrize("what", BETTER)
def test_the_better_node_has(what: str) -> None:
    good, bad, pod = BETTER[what]
    assert score(pod, good) > score(pod, bad)


def test_a_taint_that_is_tolerated_turns_nobody_away() -> None:
    pod = demand(tolerations=[{"key": "k", "operator": "Exists"}])
    assert score(pod, node(taints=[{"key": "k", "effect": "PreferNoSchedule"}])) == score(pod, node())


# -- preemption ------------------------------------------------------------------------------------
def keys(candidate: Candidate | None) -> list[str]:
    return [victim.uid for victim, _ in candidate.victims] if candidate else []


VICTIMS: dict[str, tuple[dict[str, tuple[int, str]], int, str, list[str]]] = {
    # pods on a node of 4 CPUs: (priority, CPUs); priority and CPUs of who comes; who goes
    "the lowest is enough": ({"a": (1, "2"), "b": (2, "2")}, 5, "2", ["a"]),
    "no more than must": ({"a": (1, "1"), "b": (1, "3")}, 5, "3", ["b"]),
    "none of the same priority": ({"a": (5, "2"), "b": (5, "2")}, 5, "2", []),
    "none of a higher one": ({"a": (6, "2"), "b": (1, "2")}, 5, "2", ["b"]),
    "none when all of the lower are not enough": ({"a": (6, "2"), "b": (1, "2")}, 5, "3", []),
    "all of them where it must be, the highest named first": ({"a": (1, "2"), "b": (2, "2")}, 5, "4", ["b", "a"]),
    "none, where nothing has to go": ({"a": (1, "1")}, 5, "2", []),
}


@pytest.mark.parametrize("what", VICTIMS)
def test_who_makes_room(what: str) -> None:
    there, priority, cpus, want = VICTIMS[what]
    info = node(allocatable={"cpu": "4", "pods": "9"})
    for name, (theirs, amount) in there.items():
        put(info, asking(name, theirs, cpu=amount))
    assert keys(victims_on(asking("p", priority, cpu=cpus), info, [])) == want


def test_of_two_alike_the_one_that_has_run_longer_stays() -> None:
    info = node(allocatable={"cpu": "4", "pods": "9"})
    put(info, asking("old", 1, cpu="2"), "2026-01-01T00:00:00Z")
    put(info, asking("new", 1, cpu="2"), "2026-01-01T00:00:09Z")
    assert keys(victims_on(asking("p", 5, cpu="2"), info, [])) == ["new"]


def candidate(name: str, *victims: tuple[int, str]) -> Candidate:
    info = NodeInfo(name)
    pairs = []
    for number, (priority, started) in enumerate(victims):
        one = asking(f"{name}{number}", priority)
        pairs.append((one, put(info, one, f"2026-01-01T00:00:{started}Z")))
    return Candidate(name, tuple(pairs))


NODES: dict[str, tuple[Candidate, Candidate]] = {
    "whose most important victim matters least": (candidate("w", (1, "00"), (1, "00")), candidate("l", (2, "00"))),
    "then the lowest sum of priorities": (candidate("w", (3, "00"), (1, "00")), candidate("l", (3, "00"), (2, "00"))),
    "then the fewest victims": (candidate("w", (3, "00")), candidate("l", (3, "00"), (-(2**31), "00"))),
    "then whose most important victim started last": (
        candidate("w", (3, "09"), (1, "01")),
        candidate("l", (3, "08"), (1, "02")),
    ),
}


@pytest.mark.parametrize("what", NODES)
def test_the_node_that_is_preempted_on(what: str) -> None:
    winner, loser = NODES[what]
    assert best([winner, loser]) is winner
    assert best([loser, winner]) is winner
    assert best([]) is None


def test_the_words_count_nodes_by_reason() -> None:
    full, cordoned = node("a"), node("b", unschedulable=True)
    put(full, asking("a", cpu="4"))
    pod = asking(cpu="1")
    against = {info.name: reasons_against(pod, info) for info in (full, cordoned, node("c", unschedulable=True))}
    assert fit_error(against) == "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) were unschedulable."
