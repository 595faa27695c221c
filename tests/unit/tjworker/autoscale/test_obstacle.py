"""Why a role has no more replicas: what is said is what `decide` does."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.support.builders import NodeBuilder, make_node
from tests.support.seeds import the_seed
from tests.unit.tjworker.autoscale.test_decide import GPU, NOW, an_elastic, recorded, running, used, waits, with_pods
from tjworker.api.node_requests import NodeRequests
from tjworker.autoscale import AutoscaleRules, JobState, decide
from tjworker.autoscale.decide import pose, why_no_more

ROOM = "there is room for one more, which the autoscaler's next run takes (policy fulfillment)"
ONE_NODE = (make_node("a", cpu="8", memory="64G"),)


def why(
    state: JobState, nodes: tuple[NodeBuilder, ...], requests: Mapping[str, NodeRequests], rules: AutoscaleRules
) -> str:
    records = {node.build().name: node.build() for node in nodes}
    (said,) = why_no_more(pose([state], records, requests, NOW, rules), rules, state.job.key).values()
    return said


@dataclass(frozen=True)
class Case:
    state: JobState
    want: str
    requests: Mapping[str, NodeRequests] = field(default_factory=lambda: {"a": used(2)})
    nodes: tuple[NodeBuilder, ...] = ONE_NODE
    rules: AutoscaleRules = field(default_factory=lambda: AutoscaleRules(max_load_desired=1.0))


BIG = an_elastic(1, resources={"requests": {"cpu": "3", "memory": "1G"}})
GREEDY = an_elastic(1, resources={"requests": {"cpu": "1", "memory": "60G"}})
OF_GPUS = an_elastic(resources={"limits": {"cpu": "1", "memory": "1G", GPU: "2"}})
TWO_NODES = (make_node("a", cpu="4", memory="64G"), make_node("b", cpu="4", memory="32G"))

CASES: dict[str, Case] = {
    "there is room": Case(running(an_elastic()), ROOM),
    "the CPUs are full": Case(
        running(an_elastic(7)),
        "one more asks for 1 CPU, and 0.5 of 8 are left to it: the autoscaler fills 100% of the CPUs",
        {"a": used(7.5)},
    ),
    "the memory is full": Case(
        running(GREEDY, 1),
        "one more asks for 60 GB of memory, and 4 GB of 64 GB are left",
        {"a": NodeRequests(memory_bytes=60 * 10**9)},
    ),
    "memory and CPUs are full: the first that the plan asks for": Case(
        running(GREEDY, 1),
        "one more asks for 60 GB of memory, and 4 GB of 64 GB are left",
        {"a": NodeRequests(cpu_milli=8000, memory_bytes=60 * 10**9)},
    ),
    "the GPUs are taken": Case(
        running(OF_GPUS),
        "one more asks for 2 GPU, and 1 of 4 are left",
        {"a": used(2, gpu=3)},
        (make_node("a", cpu="8", memory="64G", **{GPU: "4"}),),
    ),
    "no single node has the room": Case(
        running(BIG, 1),
        "no single node has room for one more (CPU 3, memory 1 GB): b, the emptiest, has CPU 2, memory 30 GB left",
        {"a": used(3), "b": used(2)},
        TWO_NODES,
    ),
    "it does not run whole": Case(
        running(an_elastic(phase="Creating")), "while it runs whole, and this one is Creating"
    ),
    "replicas of it wait": Case(
        with_pods(an_elastic(), lambda pod, i: waits(pod, i).but(created_at="2026-01-01T00:59:50Z")),
        "2 of its replicas wait for a node",
    ),
    "one of them has waited for the whole cool-down": Case(
        with_pods(an_elastic(), waits), "the scheduler has found no node for 1 of them for 30 s; tried again after"
    ),
    "it has just shrunk": Case(
        running(an_elastic(**recorded(3, 2, "00:59:50"))),
        "it shrank at 2026-01-01T00:59:50Z, and rests for the cool-down",
    ),
    "the scheduler refused it a while ago": Case(
        running(an_elastic(**recorded(3, 2, "00:57:00", "refused"))),
        "replicas were refused at 2026-01-01T00:57:00Z; it is tried",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_why_it_has_no_more(case: Case) -> None:
    assert case.want in why(case.state, case.nodes, case.requests, case.rules)


def test_it_says_that_there_is_room_where_the_autoscaler_takes_it_and_only_there() -> None:
    seed = the_seed()
    rng = random.Random(seed)
    taken = 0
    for _ in range(400):
        replicas = rng.randint(1, 3)
        asked = {"requests": {"cpu": rng.choice(["500m", "1", "3"]), "memory": rng.choice(["1G", "20G"])}}
        state = running(an_elastic(replicas, resources=asked))
        nodes = tuple(make_node(name, cpu=str(rng.choice([4, 8])), memory="32G") for name in "ab")
        requests = {name: used(rng.randint(2, 8)) for name in "ab"}
        rules = AutoscaleRules(max_load_desired=rng.choice([0.8, 1.0]))
        moves = decide([state], {n.build().name: n.build() for n in nodes}, requests, NOW, rules).moves
        grows = any(move.to > move.from_ for move in moves)
        said = why(state, nodes, requests, rules)
        assert (said == ROOM) is grows, f"seed {seed}: {said}, {moves}, {requests}"
        taken += grows
    assert 50 < taken < 350, f"seed {seed}: both happen"
