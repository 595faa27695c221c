"""What is decided about whole jobs: which may move, what of the cluster counts, and the rules beside the policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.builders import JobBuilder, NodeBuilder, PodBuilder, make_job, make_node, make_pod
from tjworker.api.node_requests import WAITING, NodeRequests
from tjworker.api.status import Attempts, Condition, Ending, JobStatus, Phase, RoleAttempts, ScaleCause, ScaleRecord
from tjworker.autoscale import AutoscaleRules, JobState, cluster_resource, decide, find_pending_job
from tjworker.autoscale.roles import UnplannedRole

NOW = 1767229200.0  # 2026-01-01T01:00:00Z
GPU = "nvidia.com/gpu"
GB = 10**9
EIGHT_CPUS = {"a": make_node("a", cpu="8", memory="64G").build()}


def an_elastic(
    replicas: int = 2,
    *,
    least: int = 1,
    most: int = 10,
    name: str = "digits",
    phase: Phase = "Running",
    edl: str = "Auto",
    resources: Mapping[str, Any] | None = None,
    **status: Any,
) -> JobBuilder:
    """A job whose trainers take a CPU and 1 GB each."""
    asked = {"requests": {"cpu": "1", "memory": "1G"}} if resources is None else resources
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "resources": asked}]}}
    builder = make_job(name).role("trainer", replicas, least=least, most=most, edl=edl, template=template)
    return builder.status(JobStatus(phase=phase, **status))


def running(builder: JobBuilder, count: int | None = None, node: str = "a") -> JobState:
    """With that many trainers that run on the node; as many as it should have when not said."""
    job = builder.build()
    wanted = job.role("trainer").replicas if count is None else count
    return JobState(job, tuple(make_pod(job, "trainer", i).on(node).running().build() for i in range(wanted)))


def with_pods(builder: JobBuilder, change: Callable[[PodBuilder, int], PodBuilder]) -> JobState:
    job = builder.build()
    return JobState(
        job, tuple(change(make_pod(job, "trainer", i), i).build() for i in range(job.role("trainer").replicas))
    )


def used(cpus: float, **extended: int) -> NodeRequests:
    return NodeRequests(
        int(cpus * 1000), int(cpus * GB), pods=int(cpus), extended=tuple((GPU, n) for n in extended.values())
    )


def recorded(from_: int, to: int, minute: str, cause: ScaleCause = "") -> dict[str, Any]:
    record = ScaleRecord(role="trainer", from_=from_, to=to, time=f"2026-01-01T{minute}Z", cause=cause)
    return {"scale_records": (record,)}


BAD_EDIT = Condition(
    type="Failed", status="False", reason="InvalidSpec", message="x", last_transition_time="2026-01-01T00:00:00Z"
)


@dataclass(frozen=True)
class Case:
    states: tuple[JobState, ...]
    requests: Mapping[str, NodeRequests]
    want: Mapping[str, tuple[int, int]]
    """Job -> from, to."""
    nodes: tuple[NodeBuilder, ...] = (make_node("a", cpu="8", memory="64G"),)
    rules: AutoscaleRules = field(default_factory=lambda: AutoscaleRules(max_load_desired=1.0))
    why: str = ""


def waits(pod: PodBuilder, _: int) -> PodBuilder:
    return pod.unschedulable()


CASES = {
    "as far as the load is desired": Case(
        (running(an_elastic()),),
        {"a": used(2)},
        {"digits": (2, 7)},
        rules=AutoscaleRules(),
        why="room for 5 more (CPU 2 of 8",
    ),
    "other people's pods count": Case((running(an_elastic()),), {"a": used(6)}, {"digits": (2, 4)}),
    "others that wait for a node count": Case(
        (running(an_elastic(6)),),
        {"a": used(6), WAITING: used(4)},
        {"digits": (6, 4)},
        why="room is needed (CPU 10 of 8",
    ),
    "two jobs share what is free": Case(
        (running(an_elastic(2)), running(an_elastic(2, name="other"))),
        {"a": used(4)},
        {"digits": (2, 4), "other": (2, 4)},
    ),
    "Manual is for people": Case((running(an_elastic(edl="Manual")),), {"a": used(2)}, {}),
    "a role that is not elastic": Case((running(an_elastic(2, least=2, most=2)),), {"a": used(2)}, {}),
    "a suspended job": Case((running(an_elastic().suspended(), 0),), {}, {}),
    "a job that is being deleted": Case((running(an_elastic().deleting()),), {"a": used(2)}, {}),
    "a job whose end is decided": Case(
        (running(an_elastic(ending=Ending(phase="Failed", reason="r", time="2026-01-01T00:00:00Z"))),),
        {"a": used(2)},
        {},
    ),
    "a job that does not run yet does not grow": Case((running(an_elastic(phase="Creating")),), {"a": used(2)}, {}),
    "where a pod waits every job may give way": Case(
        (running(an_elastic(6, phase="Scaling")),), {"a": used(6), WAITING: used(4)}, {"digits": (6, 4)}
    ),
    "a replica that succeeded: the job comes to its end and does not grow": Case(
        (running(an_elastic(attempts=Attempts(roles={"trainer": RoleAttempts(completed="0")})), 1),), {"a": used(1)}, {}
    ),
    "no nodes are known: no job shrinks": Case((running(an_elastic()),), {WAITING: used(2)}, {}, nodes=()),
    "a cordoned node counts with neither its room nor its pods": Case(
        (running(an_elastic()),),
        {"a": used(2), "b": used(8)},
        {"digits": (2, 8)},
        nodes=(make_node("a", cpu="8", memory="64G"), make_node("b", cpu="8").cordoned()),
    ),
    "a replica that fits on no node is not planned": Case(
        (running(an_elastic(resources={"requests": {"cpu": "3"}})),),
        {"a": used(6), "b": used(6)},
        {},
        nodes=(make_node("a", cpu="8", memory="64G"), make_node("b", cpu="8", memory="64G")),
    ),
    "without requests, as many as the node takes pods": Case(
        (running(an_elastic(resources={}, most=10_000)),),
        {"a": NodeRequests(pods=2)},
        {"digits": (2, 30)},
        nodes=(make_node("a", cpu="8", memory="64G", pods="30"),),
    ),
    "a quantity that does not parse: left alone, and the others are not": Case(
        (running(an_elastic(name="wrong", resources={"requests": {"cpu": "two"}})), running(an_elastic())),
        {"a": used(4)},
        {"digits": (2, 6)},
    ),
    "GPUs of one kind are none of another": Case(
        (running(an_elastic(resources={"limits": {"amd.com/gpu": 1}})),),
        {"a": used(2)},
        {"digits": (2, 3)},
        nodes=(
            make_node("a", cpu="8", memory="64G", **{GPU: "4"}),
            make_node("b", cpu="8", memory="64G", **{"amd.com/gpu": "1"}),
        ),
        rules=AutoscaleRules(gpu_resources=("amd.com/gpu", GPU)),
    ),
    "who was told to go is not told again while it goes": Case(
        (running(an_elastic(4), 6),), {"a": used(6), WAITING: used(4)}, {}
    ),
    "who is being deleted leaves its room": Case(
        (
            with_pods(
                an_elastic(4), lambda pod, i: pod.on("a").running().deleting() if i == 3 else pod.on("a").running()
            ),
        ),
        {"a": used(8)},
        {},
    ),
    "who gave way a moment ago does not grow": Case(
        (running(an_elastic(**recorded(4, 2, "00:59:45"))),), {"a": used(2)}, {}
    ),
    "who gave way a while ago grows": Case(
        (running(an_elastic(**recorded(4, 2, "00:59:30"))),), {"a": used(2)}, {"digits": (2, 8)}
    ),
    "who has just grown gives way when room is needed": Case(
        (running(an_elastic(6, **recorded(4, 6, "00:59:58"))),), {"a": used(6), WAITING: used(4)}, {"digits": (6, 4)}
    ),
    "a record whose time is garbage holds no job back": Case(
        (running(an_elastic(**recorded(4, 2, "soon"))),), {"a": used(2)}, {"digits": (2, 8)}
    ),
    "part of its spec cannot be used: no pass would make its replica": Case(
        (running(an_elastic(conditions=(BAD_EDIT,))),), {"a": used(2)}, {}
    ),
    "replicas that wait: it does not grow on": Case(
        (
            with_pods(
                an_elastic(4),
                lambda pod, i: (
                    waits(pod, i).but(created_at="2026-01-01T00:59:50Z") if i == 3 else pod.on("a").running()
                ),
            ),
        ),
        {"a": used(3), WAITING: used(1)},
        {},
    ),
    "replicas that the scheduler has refused for long are taken back": Case(
        (with_pods(an_elastic(4), lambda pod, i: waits(pod, i) if i > 1 else pod.on("a").running()),),
        {"a": used(2), WAITING: used(2)},
        {"digits": (4, 2)},
        why="the scheduler has found no node for 2 of them for 30 s",
    ),
    "and then it is": Case(
        (running(an_elastic(**recorded(4, 2, "00:55:00", "refused"))),), {"a": used(2)}, {"digits": (2, 8)}
    ),
    "ten thousand replicas are wanted, as many as there is room for are had": Case(
        (running(an_elastic(1, most=10_000)),), {"a": used(1)}, {"digits": (1, 8)}
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_decide(sentence: str) -> None:
    case = CASES[sentence]
    nodes = {node.build().name: node.build() for node in case.nodes}
    decision = decide(case.states, nodes, case.requests, NOW, case.rules)
    assert {move.state.job.name.name: (move.from_, move.to) for move in decision.moves} == case.want
    assert all(move.reason.startswith(f"autoscaler: {case.why}") for move in decision.moves), decision.moves
    assert decide(case.states, nodes, case.requests, NOW, case.rules) == decision, "the same again"


def test_the_cool_down_of_one_role_keeps_no_other_of_the_job_back() -> None:
    def record(role: str, from_: int, to: int, minute: str) -> ScaleRecord:
        return ScaleRecord(role=role, from_=from_, to=to, time=f"2026-01-01T{minute}Z", reason="autoscaler: room")

    newest_first = (record("reader", 2, 1, "00:59:55"), record("trainer", 4, 2, "00:50:00"))
    template = {"spec": {"containers": [{"name": "aitj-main", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}}
    job = (
        an_elastic(2, scale_records=newest_first)
        .role("reader", 1, least=1, most=2, edl="Auto", template=template)
        .build()
    )
    pods = [make_pod(job, "trainer", i) for i in range(2)] + [make_pod(job, "reader")]
    state = JobState(job, tuple(pod.on("a").running().build() for pod in pods))
    decision = decide([state], EIGHT_CPUS, {"a": used(3)}, NOW, AutoscaleRules(max_load_desired=1.0))
    assert {m.role: m.to for m in decision.moves} == {"trainer": 7}, "the reader has just given way"


PENDING = {
    "all pods of a role are unschedulable": (with_pods(an_elastic(2), waits), True),
    "one of them has a node": (with_pods(an_elastic(2), lambda pod, i: pod.on("a") if i else waits(pod, i)), False),
    "none has been made": (running(an_elastic(2), 0), False),
    "they wait, and the scheduler has not looked yet": (with_pods(an_elastic(2), lambda pod, _: pod), False),
}


@pytest.mark.parametrize("sentence", PENDING)
def test_a_pending_job(sentence: str) -> None:
    state, want = PENDING[sentence]
    assert find_pending_job([state]) is want


def test_the_cluster_is_its_usable_nodes_and_what_is_asked_of_them() -> None:
    nodes = [
        make_node("a", cpu="8", memory="1000Mi", **{GPU: "4"}),
        make_node("b", cpu="1500m", memory="100Mi", pods="3"),
        make_node("off", cpu="99").cordoned(),
        replace(make_node("odd"), record=make_node("odd", cpu="many").build()),
    ]
    requests = {
        "a": NodeRequests(500, 105 * 10**6 + 1, 700, 900, 2, ((GPU, 3),)),
        "off": used(5),
        WAITING: used(1),
        "gone": used(7),
    }
    resource = cluster_resource({n.build().name: n.build() for n in nodes}, requests, (GPU,))
    assert (resource.node_count, resource.cpu_total_milli, resource.cpu_request_milli) == (3, 9500, 1500)
    assert (resource.gpu_total, resource.gpu_limit, resource.cpu_limit_milli, resource.memory_limit_mega) == (
        4,
        3,
        700,
        1,
    )
    assert resource.memory_request_mega == 1000 + 106
    assert resource.nodes.cpu_idle_milli == {"a": 7500, "b": 1500, "odd": 0}
    assert resource.nodes.memory_free_mega["a"] == (1000 * 2**20 - 105 * 10**6 - 1) // 10**6
    assert resource.nodes.gpu_free == {"a": 1, "b": 0, "odd": 0}
    assert resource.nodes.others_free == {"pods": {"a": 108, "b": 3, "odd": 110}}


UNUSABLE: dict[str, tuple[JobState, str]] = {
    "a replica that requests more than any node has": (
        running(an_elastic(2, name="bad", phase="Pending", resources={"requests": {"cpu": "1e400"}}), 0),
        "a replica requests more than any node has",
    ),
    "a quantity that is none": (
        running(an_elastic(2, name="bad", resources={"requests": {"cpu": "inf"}})),
        "'inf' is no quantity",
    ),
}


@pytest.mark.parametrize(("bad", "want_why"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_a_job_that_cannot_be_planned_with_costs_itself_alone(bad: JobState, want_why: str) -> None:
    decision = decide([running(an_elastic(2, name="good")), bad], EIGHT_CPUS, {"a": used(2)}, NOW, AutoscaleRules())
    assert [(move.state.job.name.name, move.to) for move in decision.moves] == [("good", 7)]
    (problem,) = decision.problems
    assert isinstance(problem, UnplannedRole)
    assert (problem.job, problem.role) == (bad.job.key, "trainer")
    assert want_why in problem.why


def test_a_foreign_pod_or_node_beyond_all_measure_ends_no_run() -> None:
    absurd = NodeRequests(10**400, 10**400)
    nodes = {**EIGHT_CPUS, "b": make_node("b", cpu="1e400", memory="1e400").build()}
    decision = decide([running(an_elastic(2))], nodes, {"a": used(2), WAITING: absurd}, NOW, AutoscaleRules())
    assert decision.roles == 1
