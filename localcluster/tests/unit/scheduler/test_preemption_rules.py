"""Which of two nodes is the better one, and who has to make room, as kube-scheduler decides it.

https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/
"""

from __future__ import annotations

import pytest

from localcluster.scheduler.filters import score
from localcluster.scheduler.nodeinfo import Demand, NodeInfo
from localcluster.scheduler.preemption import Candidate, best, victims_on
from unit.scheduler.demands import affinity, asking, demand, expression, node, put

IN_X, IN_Y = expression("In", ("x",)), expression("In", ("y",))


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
