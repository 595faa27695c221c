"""Which pods fit on which nodes: every combination, against the words of Kubernetes' documentation.

https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
"""

from __future__ import annotations

from itertools import product

import pytest

from localcluster.objects import pod_requests
from localcluster.scheduler.filters import FITS, reasons_against
from localcluster.wire import Json
from localcluster_tests.unit.scheduler.demands import affinity, asking, demand, expression, node, put

# -- taints ----------------------------------------------------------------------------------------
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def documented(toleration: Json, taint: Json) -> bool:
    """'A toleration "matches" a taint if the keys are the same and the effects are the same', and: the operator is
    Exists, or it is Equal and the values are; an empty key with Exists matches all; an empty effect all effects."""
    same_effect = not toleration.get("effect") or toleration["effect"] == taint["effect"]
    if toleration.get("operator", "Equal") == "Exists":
        return bool(same_effect and (not toleration.get("key") or toleration["key"] == taint["key"]))
    return bool(same_effect and toleration.get("key") == taint["key"] and toleration.get("value", "") == taint["value"])


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
        against = reasons_against(demand(tolerations=[toleration]), node(taints=[taint]))
        assert (against == FITS) is want, (toleration, taint)
        if not want:
            assert against.reasons == ("node(s) had untolerated taint(s)",)
            assert not against.resolvable, "no preemption takes a taint away"


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
    against = reasons_against(demand(tolerations=tolerations), node(unschedulable=True))
    assert against.reasons == (() if want else ("node(s) were unschedulable",))
    assert against.resolvable is want


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
    "nor does it with another": ([{}, {"matchExpressions": [IN_Y]}], False),
    "fields are the node's name": ([{"matchFields": [HERE]}], True),
    "another name": ([{"matchFields": [{**HERE, "values": ["m"]}]}], False),
    "fields and expressions of a term hold together": ([{"matchFields": [HERE], "matchExpressions": [IN_Y]}], False),
    "both hold": ([{"matchFields": [HERE], "matchExpressions": [IN_X]}], True),
}


@pytest.mark.parametrize("what", TERMS)
def test_terms_of_node_affinity(what: str) -> None:
    terms, want = TERMS[what]
    against = reasons_against(demand(affinity=affinity(*terms)), node(labels={"zone": "x"}))
    assert against.reasons == (() if want else ("node(s) didn't match Pod's node affinity/selector",))
    assert against.resolvable is want


# -- room ------------------------------------------------------------------------------------------
ROOM: dict[str, tuple[str, str, str]] = {
    # resource: (just fits with what is there, one more, in words)
    "cpu": ("1500m", "1501m", "Insufficient cpu"),
    "memory": ("3Mi", "3145729", "Insufficient memory"),
    "gpu": ("1", "2", "Insufficient nvidia.com/gpu"),
}


@pytest.mark.parametrize("resource", ROOM)
def test_a_node_is_filled_to_the_last_piece(resource: str) -> None:
    fits, more, words = ROOM[resource]
    info = node()
    put(info, asking("a", cpu="2500m", memory="5Mi", gpu="1"))
    assert reasons_against(asking(wants={resource: fits}), info) == FITS
    against = reasons_against(asking(wants={resource: more}), info)
    assert against.reasons == (words,)
    assert against.resolvable, "the node could hold it alone"


@pytest.mark.parametrize(("resource", "amount"), [("cpu", "4001m"), ("memory", "9Mi"), ("gpu", "3")])
def test_what_the_empty_node_cannot_hold_no_preemption_brings(resource: str, amount: str) -> None:
    assert not reasons_against(asking(wants={resource: amount}), node()).resolvable


@pytest.mark.parametrize("order", [("cpu", "memory"), ("memory", "cpu")])
def test_nor_where_the_node_only_happens_to_be_full_of_another(order: tuple[str, str]) -> None:
    info = node()
    put(info, asking("a", cpu="4", memory="8Mi"))
    asked = {"cpu": "5", "memory": "1Mi"}
    against = reasons_against(asking(wants={name: asked[name] for name in order}), info)
    assert (set(against.reasons), against.resolvable) == ({"Insufficient cpu", "Insufficient memory"}, False)


def test_a_node_takes_so_many_pods_and_no_more() -> None:
    info = node()
    for name in "ab":
        put(info, asking(name))
    assert reasons_against(asking(), info) == FITS
    put(info, asking("c"))
    assert reasons_against(asking(), info).reasons == ("Too many pods",)
    info.remove("d/b")
    assert reasons_against(asking(), info) == FITS


PORTS: dict[str, tuple[Json, bool, bool]] = {
    # what the second asks for next to a TCP port 80 of the node: (port, on the node's network, fits)
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
    against = reasons_against(pod, info)
    assert against.reasons == (() if want else ("node(s) didn't have free ports for the requested pod ports",))
    assert against.resolvable, "the pod with the port may be preempted"


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
    "a sidecar runs with the containers": (
        {"containers": [container(cpu="2")], "initContainers": [container("Always", cpu="1")]},
        {"cpu": 3000},
    ),
    "and with the init containers after it": (
        {"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="2"), container(cpu="4")]},
        {"cpu": 6000},
    ),
    "not with those before it": (
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
