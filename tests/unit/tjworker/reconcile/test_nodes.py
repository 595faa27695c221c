"""Lost nodes, GPUs at fault, and containers that cannot be created."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import get_args

import pytest

from tests.support.builders import NodeBuilder, PodBuilder, make_job, make_node, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import NOW, RULES, after, created, decide, deleted, status_of
from tjworker.api.model import RestartPolicy, TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.resources import NODES, PODS
from tjworker.api.timefmt import to_rfc3339
from tjworker.reconcile import Plan
from tjworker.reconcile.plan import Delete

POLICIES = get_args(RestartPolicy)
BY_NODE = {"Always", "OnNodeFail", "OnNodeFailWithExitCode"}


def ago(seconds: float) -> str:
    return to_rfc3339(NOW - seconds)


def two(policy: str = "OnNodeFail", scope: str = "Pod", **role: object) -> TrainingJob:
    job = make_job().role("trainer", 2, restart=policy, scope=scope, **role)  # type: ignore[arg-type]
    short = {"node-b": {"nvidia.com/gpu": ago(30)}}
    return job.status(phase="Running", start_time=ago(900), short_nodes=short).build()


def world(job: TrainingJob, *more: PodBuilder | NodeBuilder, gone: tuple[str, ...] = ()) -> Observed:
    """Trainer 0 on node-a, trainer 1 on node-b."""
    given = {m.record.name for m in more if isinstance(m, PodBuilder)}
    pods = [make_pod(job, "trainer", i).on(f"node-{'ab'[i]}").running() for i in range(2)]
    pods = [p for p in pods if p.record.name not in given]
    services = [make_service(job, "trainer", i) for i in range(2)]
    return observe(*pods, *services, *more, gone=gone, seen={NODES: 50})


def graces(plan: Plan) -> list[int | None]:
    return [w.grace_seconds for w in plan.writes if isinstance(w, Delete) and w.resource == PODS]


@dataclass
class Sick:
    node: Callable[[], NodeBuilder]
    want_lost: bool
    want_words: str = ""


SICK_NODES = {
    "not Ready for longer than the grace": Sick(
        lambda: make_node("node-b").not_ready(ago(31), "False", "KubeletNotReady"),
        True,
        "node node-b is not Ready since",
    ),
    "silent for longer than the grace": Sick(
        lambda: make_node("node-b").not_ready(ago(31)), True, "node node-b is silent (Ready is Unknown) since"
    ),
    "unreachable for longer than the grace": Sick(
        lambda: make_node("node-b").unreachable(ago(31)), True, "node node-b is"
    ),
    "not Ready within the grace": Sick(lambda: make_node("node-b").not_ready(ago(29), "False"), False),
    "cordoned": Sick(lambda: make_node("node-b").cordoned(), False),
    "healthy": Sick(lambda: make_node("node-b"), False),
}


@pytest.mark.parametrize("case", SICK_NODES.values(), ids=SICK_NODES.keys())
def test_which_nodes_are_lost(case: Sick) -> None:
    job = two()
    plan = decide(job, world(job, case.node()))
    if not case.want_lost:
        assert deleted(plan) == []
        return
    assert deleted(plan) == ["digits-trainer-1"]
    assert graces(plan) == [0]
    failure = status_of(plan).failures[0]
    assert (failure.reason, failure.node) == ("NodeLost", "node-b")
    assert failure.message.startswith(case.want_words)
    assert status_of(plan).restart_counts["trainer"].node == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pod_on_a_lost_node_is_replaced_where_the_policy_says_so_and_fails_otherwise(policy: str) -> None:
    job = two(policy)
    status = status_of(decide(job, world(job, make_node("node-b").not_ready(ago(60)))))
    assert (status.ending is None) is (policy in BY_NODE)
    if status.ending is not None:
        assert "node-b" in status.ending.message


def test_a_pod_that_is_lost_for_good_does_not_run_on_when_its_node_comes_back() -> None:
    """Its role goes on without it, and must not count as failed what trains again."""
    job = make_job().role("trainer", 2, fail="None").status(phase="Running", start_time=ago(900)).build()
    first = decide(job, world(job, make_node("node-b").not_ready(ago(60))))
    assert status_of(first).ending is None
    assert status_of(first).attempts.roles["trainer"].failed == "1"
    assert (deleted(first), graces(first)) == (["digits-trainer-1"], [0])


def test_a_node_that_is_gone_is_remembered_and_then_lost() -> None:
    job = two()
    old = make_pod(job, "trainer", 1).on("node-b").running().but(started_at=ago(600))
    first = decide(job, world(job, old, gone=("node-b",)))
    assert status_of(first).missing_nodes == {"node-b": to_rfc3339(NOW)}
    assert deleted(first) == []
    assert first.requeue_after_seconds == RULES.node_failure_grace_seconds
    later = decide(after(job, first), world(job, old, gone=("node-b",)), now=NOW + 31)
    assert (deleted(later), graces(later)) == (["digits-trainer-1"], [0])
    assert "node node-b is gone since" in status_of(later).failures[0].message


def test_where_nodes_may_not_be_read_none_is_taken_for_gone() -> None:
    job = two()
    old = make_pod(job, "trainer", 1).on("node-b").running().but(started_at=ago(600))
    blind = replace(world(job, old, gone=("node-b",)), seen={PODS: 1})
    plan = decide(job, blind)
    assert plan.status is None or plan.status.missing_nodes == {}
    assert plan.requeue_after_seconds is None


# -- GPUs ------------------------------------------------------------------------------------------


def with_gpu(job: TrainingJob, count: int = 4) -> PodBuilder:
    return make_pod(job, "trainer", 1).on("node-b").running().but(gpus={"nvidia.com/gpu": count})


@dataclass
class Gpu:
    pod: Callable[[TrainingJob], PodBuilder]
    node: NodeBuilder
    want_words: str


GPUS = {
    "kubelet says that its device is Unhealthy": Gpu(
        lambda j: with_gpu(j).containers(unhealthy_devices=("GPU-7",)),
        make_node("node-b"),
        "node node-b: device GPU-7 of the pod is Unhealthy",
    ),
    "the node has fewer GPUs than its pods hold": Gpu(
        with_gpu,
        make_node("node-b", **{"nvidia.com/gpu": "3"}),
        f"node node-b has 3 nvidia.com/gpu since {ago(30)}, its pods hold 4",
    ),
    "a node problem detector says so": Gpu(
        with_gpu,
        make_node("node-b", **{"nvidia.com/gpu": "8"}).condition("GPUFault", "Xid 79"),
        "node node-b: GPUFault: Xid 79",
    ),
    "as many GPUs as are held": Gpu(with_gpu, make_node("node-b", **{"nvidia.com/gpu": "4"}), ""),
    "the detector's condition does not concern a pod without GPU": Gpu(
        lambda j: with_gpu(j, 0), make_node("node-b").condition("GPUFault", "Xid 79"), ""
    ),
}


@pytest.mark.parametrize("case", GPUS.values(), ids=GPUS.keys())
def test_gpu_faults(case: Gpu) -> None:
    job = two()
    plan = decide(job, world(job, case.pod(job), case.node))
    if not case.want_words:
        assert deleted(plan) == []
        return
    assert deleted(plan) == ["digits-trainer-1"]
    assert graces(plan) == [None]
    failure = status_of(plan).failures[0]
    assert (failure.reason, failure.message) == ("GPUFault", case.want_words)


def test_an_ended_pod_holds_no_gpu_any_more() -> None:
    """Nor does one that is on its way out after its end: the device plugin has its devices back."""
    job, node = two("Always"), make_node("node-b", **{"nvidia.com/gpu": "4"})
    for ended in (with_gpu(job).succeeded(), with_gpu(job).failed(1)):
        before = ended.but(name="digits-trainer-0", labels=make_pod(job, "trainer", 0).record.labels)
        plan = decide(job, world(job, before, with_gpu(job), node))
        assert "digits-trainer-1" not in deleted(plan)
        assert plan.status is None or not any(f.reason == "GPUFault" for f in plan.status.failures)


def test_a_gpu_at_fault_is_noticed_before_its_pod_runs() -> None:
    job = two()
    for starting in (with_gpu(job).creating(), with_gpu(job).creating("PodInitializing")):
        sick = starting.but(phase="Pending").containers(unhealthy_devices=("GPU-7",))
        assert deleted(decide(job, world(job, sick))) == ["digits-trainer-1"]


# -- containers that cannot be created -------------------------------------------------------------

REASONS = (
    "CreateContainerConfigError",
    "CreateContainerError",
    "ImagePullBackOff",
    "ImageInspectError",
    "ErrImagePull",
    "ErrImageNeverPull",
    "RegistryUnavailable",
    "InvalidImageName",
)
SHORT = replace(RULES, creating_duration_seconds=60, creating_restart_seconds=300, enable_creating_failed=True)


def stuck(job: TrainingJob, reason: str, age_seconds: float) -> Observed:
    pod = make_pod(job, "trainer", 0).on("node-a").creating(reason, "no such image").but(created_at=ago(age_seconds))
    return observe(pod, make_service(job, "trainer", 0))


@pytest.mark.parametrize("reason", REASONS)
def test_a_pod_that_cannot_be_created_is_made_again_after_a_while(reason: str) -> None:
    job = make_job().role("trainer", 1).build()
    early = decide(job, stuck(job, reason, 59), rules=SHORT)
    assert (deleted(early), early.requeue_after_seconds) == ([], 1)
    plan = decide(job, stuck(job, reason, 61), rules=SHORT)
    assert deleted(plan) == ["digits-trainer-0"]
    assert status_of(plan).creating_since == {"trainer": {ago(61): "0"}}
    assert status_of(plan).restarts == 0


@dataclass
class Tried:
    enabled: bool
    tried_seconds: float
    want_phase: str
    want_deleted: bool


TRIES = {
    "still within the period: made again": Tried(True, 200, "Restarting", True),
    "after it, with enable_creating_failed: the job fails with the container's reason": Tried(
        True, 301, "Terminating", True
    ),
    "after it, without: the pod is left waiting": Tried(False, 301, "Creating", False),
}


@pytest.mark.parametrize("case", TRIES.values(), ids=TRIES.keys())
def test_how_long_it_is_tried(case: Tried) -> None:
    rules = replace(SHORT, enable_creating_failed=case.enabled)
    job = (
        make_job()
        .role("trainer", 1)
        .status(phase="Creating", start_time=ago(900), creating_since={"trainer": {ago(case.tried_seconds): "0"}})
        .build()
    )
    plan = decide(job, stuck(job, "ImagePullBackOff", 61), rules=rules)
    status = plan.status or job.status
    assert status.phase == case.want_phase
    assert (deleted(plan) == ["digits-trainer-0"]) is case.want_deleted
    if status.ending is not None:
        assert status.ending.reason == "ImagePullBackOff"
        assert "no such image" in status.ending.message
    assert created(plan) == []
