"""The autoscaler plans with pods as the API server has created them: what a replica really requests, which replicas
have been refused, and which of the pods that wait could ever have a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.builders import NodeBuilder, PodBuilder, make_node, make_pod
from tests.unit.tjworker.autoscale.test_decide import GB, NOW, an_elastic, recorded, running, used
from tjworker.api.node_requests import WAITING, NodeRequests
from tjworker.api.status import Attempts, Condition, RoleAttempts
from tjworker.api.waiting_pods import WaitingPods
from tjworker.autoscale import AutoscaleRules, Decision, JobState, decide

RULES = AutoscaleRules(max_load_desired=1.0)
OLD = "2026-01-01T00:59:30Z"
"""A cool-down before NOW."""


def decided(
    states: Sequence[JobState],
    nodes: Sequence[NodeBuilder],
    requests: Mapping[str, NodeRequests],
    waiting: Sequence[WaitingPods] = (),
    rules: AutoscaleRules = RULES,
) -> Decision:
    total = requests.get(WAITING, NodeRequests())
    for entry in waiting:
        total = total.plus(entry.requests, entry.pods)
    records = {node.build().name: node.build() for node in nodes}
    return decide(states, records, {**requests, WAITING: total}, NOW, rules, waiting)


def moves(decision: Decision) -> dict[str, tuple[int, int]]:
    return {move.state.job.name.name: (move.from_, move.to) for move in decision.moves}


def trainers(state: JobState, *asked: Mapping[str, int]) -> JobState:
    """The same job, of whose pods the API server says that they request this."""
    pods = [PodBuilder(pod).but(requests=dict(its)).build() for pod, its in zip(state.pods, asked, strict=True)]
    return JobState(state.job, tuple(pods))


# -- what a replica takes ----------------------------------------------------------------------------
NOTHING_ASKED: dict[str, Any] = {}
ONE_CPU = {"requests": {"cpu": "1", "memory": "1G"}}


@dataclass(frozen=True)
class Sized:
    state: JobState
    want: Mapping[str, tuple[int, int]]
    asked: NodeRequests
    nodes: tuple[NodeBuilder, ...] = (make_node("a", cpu="64", memory="640G"),)


SIZED = {
    "a LimitRange makes each pod request 20 CPUs, though the template requests none": Sized(
        trainers(running(an_elastic(1, most=40, resources=NOTHING_ASKED)), {"cpu": 20_000}),
        {"digits": (1, 3)},
        NodeRequests(cpu_milli=20_000, pods=1),
    ),
    "of pods of several sizes the next is as large as the largest": Sized(
        trainers(
            running(an_elastic(2, most=40, resources=ONE_CPU)),
            {"cpu": 1000, "memory": GB},
            {"cpu": 1000, "memory": 300 * GB},
        ),
        {"digits": (2, 3)},
        NodeRequests(cpu_milli=2000, memory_bytes=301 * GB, pods=2),
    ),
    "an extended resource that no setting names is counted on its node, too": Sized(
        trainers(running(an_elastic(1, most=40, resources=ONE_CPU)), {"cpu": 1000, "memory": GB, "rdma/hca": 2}),
        {"digits": (1, 3)},
        NodeRequests(cpu_milli=1000, memory_bytes=GB, pods=1, extended=(("rdma/hca", 2),)),
        (make_node("a", cpu="64", memory="640G", **{"rdma/hca": "7"}),),
    ),
    "an older watcher does not say what pods request: the template counts": Sized(
        running(an_elastic(1, most=40, resources={"requests": {"cpu": "20"}})),
        {"digits": (1, 3)},
        NodeRequests(cpu_milli=20_000, pods=1),
    ),
    "before the first pod nothing is known of what admission adds: one is tried": Sized(
        running(an_elastic(0, least=0, most=40, resources=NOTHING_ASKED).role("ps", 1), 0),
        {"digits": (0, 1)},
        NodeRequests(),
    ),
    "a pod beyond all measure: its role alone is left": Sized(
        trainers(running(an_elastic(1, most=40, resources=ONE_CPU)), {"cpu": 1 << 63}), {}, NodeRequests(pods=1)
    ),
}


@pytest.mark.parametrize("case", SIZED.values(), ids=SIZED.keys())
def test_a_replica_costs_what_its_pods_request(case: Sized) -> None:
    assert moves(decided([case.state], case.nodes, {"a": case.asked})) == case.want


def test_a_small_pod_that_could_go_makes_room_for_a_small_one() -> None:
    """Of a job's two pods on a node of 7 CPUs, the second was made before a sidecar of 3 CPUs came. A stranger waits
    for 3 CPUs, for which the job gives up that pod of one CPU, not of four."""
    giving = trainers(
        running(an_elastic(2, least=1, most=2, resources=ONE_CPU)),
        {"cpu": 4000, "memory": GB},
        {"cpu": 1000, "memory": GB},
    )
    found = decided([giving], (make_node("a", cpu="7"),), {"a": NodeRequests(5000, 2 * GB, pods=2)}, [stranger(cpu=3)])
    assert moves(found) == {"digits": (2, 1)}
    beyond = decided([giving], (make_node("a", cpu="7"),), {"a": NodeRequests(5000, 2 * GB, pods=2)}, [stranger(cpu=4)])
    assert moves(beyond) == {}, "what it could give up is too little"


# -- replicas that get no pod ------------------------------------------------------------------------
def waits_for(reason: str, since: str, status: str = "False") -> dict[str, Any]:
    condition = Condition(type="Running", status=status, last_transition_time=since, reason=reason)
    return {"conditions": (condition,)}


QUOTA = waits_for("FailedCreate", OLD)
NEEDY = running(an_elastic(1, name="other"), node="a")
"""Takes whatever room is left."""


@dataclass(frozen=True)
class Unmade:
    state: JobState
    want: Mapping[str, tuple[int, int]]
    cause: str = "refused"


UNMADE = {
    "two of four replicas are refused by a quota for the whole cool-down: they are taken back": Unmade(
        running(an_elastic(4, phase="Scaling", **QUOTA), 2), {"digits": (4, 2)}
    ),
    "the job has never run": Unmade(running(an_elastic(4, phase="Pending", **QUOTA), 2), {"digits": (4, 2)}),
    "its target was raised a moment ago": Unmade(
        running(an_elastic(4, phase="Scaling", **QUOTA, **recorded(2, 4, "00:59:31")), 2), {}
    ),
    "its pods are missing for another reason: one that failed rests": Unmade(
        running(an_elastic(4, phase="Restarting", **waits_for("Restarting", OLD)), 2), {}
    ),
    "replicas that have finished need no pod": Unmade(
        running(an_elastic(4, attempts=Attempts(roles={"trainer": RoleAttempts(completed="2-3")}), **QUOTA), 2), {}
    ),
    "some were taken back a moment ago: the rest has a cool-down": Unmade(
        running(an_elastic(4, phase="Scaling", **QUOTA, **recorded(6, 4, "00:59:45", "refused")), 2), {}
    ),
}


@pytest.mark.parametrize("case", UNMADE.values(), ids=UNMADE.keys())
def test_a_replica_that_the_api_server_refuses_is_taken_back(case: Unmade) -> None:
    found = decided([case.state], (make_node("a", cpu="64", memory="640G"),), {"a": used(2)})
    assert moves(found) == case.want
    for move in found.moves:
        assert move.cause == case.cause
        assert "the API server has refused the pods of" in move.reason


@pytest.mark.parametrize("least", [1, 4], ids=["taken back", "kept in the target by the minimum"])
def test_replicas_that_are_refused_hold_no_room_from_others(least: int) -> None:
    """Eight CPUs: two pods of `digits` and one of the other job take three; the two that a quota refuses take none."""
    digits = running(an_elastic(4, least=least, most=10, phase="Scaling", **QUOTA), 2)
    found = moves(decided([digits, NEEDY], (make_node("a", cpu="8", memory="64G"),), {"a": used(3)}))
    assert found["other"] == (1, 6)
    assert found.get("digits") == ((4, 2) if least == 1 else None)


@pytest.mark.parametrize(
    ("status", "failed", "want"),
    [("False", False, (4, 2)), ("True", False, None), ("False", True, None)],
    ids=["nothing else explains it", "all of it ran a moment ago", "one has failed: the batch Job waits by itself"],
)
def test_a_batch_job_says_by_events_alone_that_it_can_make_no_pod(
    status: str, failed: bool, want: tuple[int, int] | None
) -> None:
    builder = an_elastic(4, phase="Scaling", **waits_for("Scaling", OLD, status))
    state = running(builder, 2)
    role = state.job.role("trainer")
    job = replace_role(state, workload="Job")
    pods = state.pods + ((make_pod(job, role.name, 7).failed().build(),) if failed else ())
    found = decided([JobState(job, pods)], (make_node("a", cpu="64", memory="640G"),), {"a": used(2)})
    assert moves(found).get("digits") == want


def replace_role(state: JobState, **fields: Any) -> Any:
    return replace(state.job, roles=tuple(replace(role, **fields) for role in state.job.roles))


# -- pods that wait ----------------------------------------------------------------------------------
def stranger(
    name: str = "web/web-0", cpu: int = 1, pods: int = 1, priority: int = 0, memory: int = 0, **more: Any
) -> WaitingPods:
    asked = NodeRequests(cpu * 1000, memory * GB, pods=1, extended=more.pop("extended", ()))
    return WaitingPods(asked, pods, name, priority, **more)


FULL = running(an_elastic(6, most=6))
"""Six of the eight CPUs of the node `a`, of which it can give five."""
EIGHT = make_node("a", cpu="8", memory="64G")


@dataclass(frozen=True)
class Waits:
    waiting: tuple[WaitingPods, ...]
    want: int
    nodes: tuple[NodeBuilder, ...] = (EIGHT,)
    asked: Mapping[str, NodeRequests] = field(default_factory=lambda: {"a": used(6)})
    why: str = ""


WAITS = {
    "real demand makes room": Waits((stranger(cpu=4),), 4, why="room is needed for web/web-0 (CPU 10 of 8"),
    "of pods that are alike one is named": Waits(
        (stranger(pods=3, cpu=2),), 2, why="room is needed for web/web-0 and 2 more (CPU 12 of 8"
    ),
    "the most urgent is named": Waits(
        (stranger(cpu=2), stranger("urgent/b", cpu=2, priority=10)), 4, why="room is needed for urgent/b (CPU 10 of 8"
    ),
    "a pod with cpu 500 fits on no node": Waits((stranger(cpu=500),), 6),
    "a pod that fits on an empty node alone, and others' pods stay": Waits((stranger(cpu=8),), 6),
    "a nodeSelector that no node has": Waits((stranger(cpu=4, constraints={"nodeSelector": {"gpu": "h100"}}),), 6),
    "a nodeSelector that the node has": Waits(
        (stranger(cpu=4, constraints={"nodeSelector": {"kubernetes.io/hostname": "a"}}),), 4
    ),
    "a taint that it tolerates": Waits(
        (stranger(cpu=4, constraints={"tolerations": [{"operator": "Exists"}]}),),
        4,
        (EIGHT.but(taints=(("dedicated", "team", "NoSchedule"),)),),
    ),
    "only a cordoned node is large enough": Waits(
        (stranger(cpu=30),), 6, (EIGHT, make_node("big", cpu="64").cordoned())
    ),
    "one that is impossible beside one that is not": Waits(
        (stranger("web/huge", cpu=500), stranger(cpu=3)), 5, why="room is needed for web/web-0 (CPU 9 of 8"
    ),
    "an older watcher tells the sum alone: it counts": Waits(
        (), 4, asked={"a": used(6), WAITING: used(4)}, why="room is needed (CPU 10 of 8"
    ),
    "what a pod needs that the job does not have helps nobody": Waits((stranger(memory=70),), 6),
}


@pytest.mark.parametrize("case", WAITS.values(), ids=WAITS.keys())
def test_a_job_gives_way_to_pods_that_could_have_its_room(case: Waits) -> None:
    found = decided([FULL], case.nodes, case.asked, case.waiting)
    assert moves(found).get("digits", (6, 6)) == (6, case.want)
    for move in found.moves:
        assert (move.cause, move.reason.startswith(f"autoscaler: {case.why}")) == ("need", True), move.reason


# -- constraints of elastic roles --------------------------------------------------------------------
def selecting(state: JobState, label: str) -> JobState:
    """The same job, whose template asks for nodes with that label."""
    role = state.job.role("trainer")
    spec = {**role.template["spec"], "nodeSelector": {"pool": label}}
    return JobState(replace_role(state, template={"spec": spec}), state.pods)


POOLS = (EIGHT.but(labels={"pool": "one"}), make_node("b", cpu="8", memory="64G").but(labels={"pool": "two"}))


def test_a_role_grows_into_the_nodes_that_it_may_go_to() -> None:
    state = selecting(running(an_elastic(2, most=20)), "one")
    assert moves(decided([state], POOLS, {"a": used(2)})) == {"digits": (2, 8)}
    assert moves(decided([running(an_elastic(2, most=20))], POOLS, {"a": used(2)})) == {"digits": (2, 16)}
