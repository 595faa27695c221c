"""Whose failure it was, and the sentence that tells it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.builders import PodBuilder, make_job, make_pod
from tests.unit.tjworker.reconcile.passes import NOW_TEXT, decide, everything, status_of
from tjworker.api.observed import ContainerRecord
from tjworker.reconcile.failures import describe, diagnose


@dataclass(frozen=True, slots=True)
class Why:
    pod: Callable[[PodBuilder], PodBuilder]
    want: tuple[str, str, str, int | None]
    """reason, message, container, exit code"""
    want_words: str
    want_cause: str = "application"


RUNC = "failed to create containerd task: runc create failed: unable to start container process: "
NOT_FOUND = "executable file not found in $PATH"
WHYS = {
    "a container's own reason and message": Why(
        lambda p: p.failed(3, reason="OOMKilled").containers(message="out of memory"),
        ("OOMKilled", "out of memory", "aitj-main", 3),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 3 (out of memory)",
    ),
    "a disruption goes before both": Why(
        lambda p: p.disrupted("EvictionByEvictionAPI").but(reason="Evicted", message="not this"),
        ("EvictionByEvictionAPI", "disrupted: EvictionByEvictionAPI", "aitj-main", 143),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 143 "
        "(disrupted: EvictionByEvictionAPI)",
        "node",
    ),
    "a command that is not there: the runtime's layers are left out": Why(
        lambda p: p.failed(128, reason="StartError").containers(message=f'{RUNC}exec: "pyhton": {NOT_FOUND}: unknown'),
        ("StartError", f'exec: "pyhton": {NOT_FOUND}', "aitj-main", 128),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 128 "
        f'(exec: "pyhton": {NOT_FOUND})',
    ),
    "of two failed containers, the one that counts is named, though the other failed first": Why(
        lambda p: (
            p.but(containers=(*p.record.containers, ContainerRecord("logger")))
            .failed(2)
            .but_container("logger", exit_code=1, finished_at="2026-01-01T00:00:01Z")
        ),
        ("Error", "", "aitj-main", 2),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 2",
    ),
    "of two that count, the one whose end has a time, though the other is first by name": Why(
        lambda p: (
            p.but(containers=(*p.record.containers, ContainerRecord("aitj-a")))
            .failed(2)
            .but_container("aitj-a", state="terminated", exit_code=1, finished_at=None)
        ),
        ("Error", "", "aitj-main", 2),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 2",
    ),
    "a GPU at fault under a pod that runs": Why(
        lambda p: p.running().but(gpu_fault="node node-a: device 3 of the pod is Unhealthy"),
        ("GPUFault", "node node-a: device 3 of the pod is Unhealthy", "", None),
        "pod digits-trainer-0 on node node-a failed: GPUFault (node node-a: device 3 of the pod is Unhealthy)",
        "node",
    ),
    "a GPU at fault under a pod that has failed by itself: its own exit counts": Why(
        lambda p: p.failed(2).but(gpu_fault="node node-a: device 3 of the pod is Unhealthy"),
        ("Error", "", "aitj-main", 2),
        "pod digits-trainer-0 on node node-a failed: container aitj-main exited with code 2",
    ),
}


@pytest.mark.parametrize("case", WHYS.values(), ids=WHYS.keys())
def test_diagnosis(case: Why) -> None:
    found = diagnose(case.pod(make_pod(make_job().role("trainer", 1).build(), "trainer", 0)).build(), NOW_TEXT)
    failure = found.failure
    assert (failure.reason, failure.message, failure.container, failure.exit_code) == case.want
    assert (describe(failure), found.cause) == (case.want_words, case.want_cause)


BY_CONDITION = {
    "PreemptionByScheduler": ("disrupted", "preemption"),
    "EvictionByEvictionAPI": ("disrupted", "node"),
    "TerminationByKubelet": ("disrupted", "node"),
    "DeletionByTaintManager": ("disrupted", "node"),
    "DeletionByPodGC": ("node_lost", "node"),
}
BY_REASON = {
    "Preempting": ("disrupted", "preemption"),
    "NodeLost": ("node_lost", "node"),
    "Evicted": ("exit", "application"),
    "NodeShutdown": ("disrupted", "node"),
    "NodeAffinity": ("disrupted", "node"),
    "UnexpectedAdmissionError": ("disrupted", "node"),
    "OutOfnvidia.com/gpu": ("disrupted", "node"),
    "DeadlineExceeded": ("exit", "application"),
    "": ("exit", "application"),
}


def unknown(pod: PodBuilder) -> PodBuilder:
    return pod.failed(137, reason="ContainerStatusUnknown")


BY_CONTAINER: dict[str, tuple[Callable[[PodBuilder], PodBuilder], tuple[str, str]]] = {
    "the kubelet no longer knows the container": (unknown, ("disrupted", "node")),
    "the program itself exits with 137": (lambda p: p.failed(137), ("exit", "application")),
    "a sidecar alone is lost": (
        lambda p: p.but(containers=(*p.record.containers, ContainerRecord("side"))).failed(
            137, "side", "ContainerStatusUnknown"
        ),
        ("disrupted", "node"),
    ),
    "the program has failed by itself before its sidecar was lost": (
        lambda p: (
            p.but(containers=(*p.record.containers, ContainerRecord("side")))
            .failed(1)
            .but_container("side", exit_code=137, reason="ContainerStatusUnknown")
        ),
        ("exit", "application"),
    ),
    "the pod was over its own deadline": (lambda p: unknown(p).but(reason="DeadlineExceeded"), ("exit", "application")),
    "the pod was over its own limit of storage": (lambda p: unknown(p).but(reason="Evicted"), ("exit", "application")),
    "its command cannot be started": (lambda p: p.failed(128, reason="StartError"), ("exit", "application")),
}


@pytest.mark.parametrize(("change", "want"), BY_CONTAINER.values(), ids=BY_CONTAINER.keys())
def test_whose_fault_it_was_by_what_is_told_of_the_containers(
    change: Callable[[PodBuilder], PodBuilder], want: tuple[str, str]
) -> None:
    found = diagnose(change(make_pod(make_job().role("trainer", 1).build(), "trainer", 0)).build(), NOW_TEXT)
    assert (found.kind, found.cause) == want


@pytest.mark.parametrize(("reason", "want"), [("StartError", False), ("ContainerCannotRun", False), ("Error", True)])
@pytest.mark.parametrize("policy", ["ExitCode", "OnNodeFailWithExitCode"])
def test_a_command_that_cannot_be_started_is_retried_by_no_exit_code(policy: str, reason: str, want: bool) -> None:
    job = make_job().role("trainer", 1, restart=policy).build()
    status = status_of(decide(job, everything(job, make_pod(job, "trainer", 0).failed(128, reason=reason))))
    assert (status.ending is None) is want
    if status.ending is not None:
        assert status.ending.message.endswith("a command that cannot be started is not retryable")


@pytest.mark.parametrize(("reason", "want"), BY_CONDITION.items(), ids=BY_CONDITION.keys())
def test_whose_fault_it_was_by_the_condition_disruptiontarget(reason: str, want: tuple[str, str]) -> None:
    found = diagnose(make_pod(make_job().role("trainer", 1).build(), "trainer", 0).disrupted(reason).build(), NOW_TEXT)
    assert (found.kind, found.cause) == want


@pytest.mark.parametrize(("reason", "want"), BY_REASON.items(), ids=[*filter(None, BY_REASON), "no reason"])
def test_whose_fault_it_was_by_the_reason_of_the_pod(reason: str, want: tuple[str, str]) -> None:
    pod = make_pod(make_job().role("trainer", 1).build(), "trainer", 0).failed(143).but(reason=reason)
    found = diagnose(pod.build(), NOW_TEXT)
    assert (found.kind, found.cause) == want


OWN_LIMIT = 'Container aitj-main exceeded its local ephemeral storage limit "1Gi". '
PRESSURE = "The node was low on resource: memory."
NOT_ADMITTED = "Pod was rejected: "


@dataclass(frozen=True, slots=True)
class Ended:
    pod: Callable[[PodBuilder], PodBuilder]
    want: tuple[str, str]


BY_KUBELET = {
    "evicted under pressure: the node's": Ended(
        lambda p: p.failed(137).but(reason="Evicted", message=PRESSURE, disruption="TerminationByKubelet"),
        ("disrupted", "node"),
    ),
    "evicted for the program's own limit, without DisruptionTarget: the program's": Ended(
        lambda p: p.failed(137).but(reason="Evicted", message=OWN_LIMIT), ("exit", "application")
    ),
    "evicted for its own limit before a container ran: the program's": Ended(
        lambda p: p.creating().but(phase="Failed", reason="Evicted", message=OWN_LIMIT), ("exit", "application")
    ),
    "turned away by a node under pressure: nobody's": Ended(
        lambda p: p.turned_away("Evicted", "The node had condition: [DiskPressure]. "), ("turned_away", "node")
    ),
    "admitted once more by a kubelet that was started anew, and turned away: the node's, as it had run": Ended(
        lambda p: p.failed(137).but(reason="TopologyAffinityError", message=f"{NOT_ADMITTED}not aligned"),
        ("disrupted", "node"),
    ),
    "ended with its node, which shuts down": Ended(
        lambda p: p.failed(143).but(reason="Terminated", disruption="TerminationByKubelet"), ("disrupted", "node")
    ),
}


@pytest.mark.parametrize("case", BY_KUBELET.values(), ids=BY_KUBELET.keys())
def test_whose_fault_it_was_when_the_kubelet_ended_it(case: Ended) -> None:
    found = diagnose(case.pod(make_pod(make_job().role("trainer", 1).build(), "trainer", 0)).build(), NOW_TEXT)
    assert (found.kind, found.cause) == case.want
