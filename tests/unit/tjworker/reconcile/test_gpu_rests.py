"""A GPU that stays at fault: the successors of its pod rest, however its fault is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.builders import NodeBuilder, PodBuilder, make_job, make_node, make_pod, make_service, observe
from tests.unit.tjworker.reconcile.passes import NOW, decide, deleted, status_of
from tjworker.api.model import TrainingJob
from tjworker.api.observed import Observed
from tjworker.api.resources import NODES
from tjworker.api.status import Attempts, RoleAttempts
from tjworker.api.timefmt import to_rfc3339

GPU = "nvidia.com/gpu"


def one(attempt: int = 0) -> TrainingJob:
    short = {"node-a": {GPU: to_rfc3339(NOW - 600)}}
    attempts = Attempts(roles={"trainer": RoleAttempts(pods={"0": attempt})} if attempt else {})
    job = make_job().role("trainer", 1, restart="OnNodeFail", scope="Pod")
    return job.status(phase="Running", start_time=to_rfc3339(NOW - 900), short_nodes=short, attempts=attempts).build()


def pod_of(job: TrainingJob, attempt: int, made: float) -> PodBuilder:
    pod = make_pod(job, "trainer", 0).on("node-a").running().attempt(attempt)
    return pod.but(gpus={GPU: 4}, created_at=to_rfc3339(made), started_at=to_rfc3339(made))


Fault = Callable[[PodBuilder], tuple[PodBuilder, NodeBuilder]]
SOUND = make_node("node-a", **{GPU: "8"})
FAULTS: dict[str, Fault] = {
    "the kubelet calls its device Unhealthy": lambda pod: (pod.containers(unhealthy_devices=("GPU-7",)), SOUND),
    "a condition that says no time": lambda pod: (pod, SOUND.condition("GPUFault", "Xid 79")),
    "a condition of the pod's own second": lambda pod: (
        pod,
        SOUND.condition("GPUFault", "Xid 79").but(condition_since={"GPUFault": pod.record.created_at}),
    ),
    "a condition whose time is to come, by a clock that is ahead": lambda pod: (
        pod,
        SOUND.condition("GPUFault", "Xid 79").but(condition_since={"GPUFault": to_rfc3339(NOW + 7200)}),
    ),
    "fewer GPUs than it holds, for longer than the grace": lambda pod: (pod, make_node("node-a", **{GPU: "3"})),
}
RESTS = {
    "the first pod of the replica does not rest": (0, 0),
    "its successor rests 20 s": (1, 20),
    "the fourth 80 s": (3, 80),
    "none more than 5 minutes": (6, 300),
    "and never for ever": (5000, 300),
}


def seen(job: TrainingJob, fault: Fault, attempt: int, made: float) -> Observed:
    return observe(*fault(pod_of(job, attempt, made)), make_service(job, "trainer", 0), seen={NODES: 50})


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
@pytest.mark.parametrize(("attempt", "rest"), RESTS.values(), ids=RESTS.keys())
def test_how_long_a_pod_has_been_there_before_a_fault_replaces_it(fault: Fault, attempt: int, rest: int) -> None:
    job = one(attempt)
    if rest:
        early = decide(job, seen(job, fault, attempt, NOW - rest + 1))
        assert deleted(early) == []
        assert early.requeue_after_seconds == 1
    plan = decide(job, seen(job, fault, attempt, NOW - rest))
    assert deleted(plan) == ["digits-trainer-0"]
    assert status_of(plan).failures[0].reason == "GPUFault"


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_successor_that_has_waited_for_a_node_rests_from_when_it_got_one(fault: Fault) -> None:
    job = one(1)

    def waited(pod: PodBuilder) -> tuple[PodBuilder, NodeBuilder]:
        pod, node = fault(pod)
        return pod.but(created_at=to_rfc3339(NOW - 3600), scheduled_at=pod.record.created_at), node

    assert deleted(decide(job, seen(job, waited, 1, NOW - 19))) == []
    assert deleted(decide(job, seen(job, waited, 1, NOW - 20))) == ["digits-trainer-0"]
