"""A job that stays where others only pass through says why, in its message and by one event: `kubectl describe` is
enough."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

import pytest

from tests.scenarios.test_faults import OVER_QUOTA, forbidden
from tests.scenarios.world import CountingTransport, World, job, play, role
from tjworker.base import OperatorError, Transient
from tjworker.execution.threads import Threads
from tjworker.kube.port import HttpResponse

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Case:
    begin: Callable[[World], object]
    phase: str
    reason: str
    names: str
    """What the message has to name."""
    mend: Callable[[World], object] | None = None
    want_after: str = ""


def hold(world: World, name: str = "digits-trainer-0") -> World:
    return world.hold_pod(name)


def let_go(world: World, name: str = "digits-trainer-0") -> object:
    return world.hold_pod(name, held=False)


def over_quota(world: World) -> object:
    class Full(CountingTransport):
        def request(self, method: str, path: str, **more: object) -> HttpResponse:
            if method == "POST" and path.endswith("/pods"):
                return OVER_QUOTA
            return super().request(method, path, **more)  # type: ignore[arg-type]

    world.api._transport = Full(world.cluster)
    return world.apply(job({"trainer": role(2)}))


class Protected(CountingTransport):
    """An admission webhook lets no request delete the first trainer, or there is another reason why it stays."""

    answer: HttpResponse | OperatorError

    def request(self, method: str, path: str, **more: object) -> HttpResponse:
        if method == "DELETE" and path.endswith("/pods/digits-trainer-0"):
            self.counts["DELETE pods"] += 1
            if isinstance(self.answer, OperatorError):
                raise self.answer
            return self.answer
        return super().request(method, path, **more)  # type: ignore[arg-type]


PROTECTED = forbidden('admission webhook "protect.example.com" denied the request: the pod is protected')
NOT_TO_GO = 'delete pods default/digits-trainer-0: 403 AdmissionDenied: admission webhook "protect.example.com" denied'
NO_RIGHT = forbidden('pods "digits-trainer-0" is forbidden: User "worker" cannot delete resource "pods"')
SILENT = Transient("no answer within 10 s")


def running_and_protected(world: World, replicas: int = 2, *, by: HttpResponse | OperatorError | None = None) -> World:
    world.transport = world.api._transport = protected = Protected(world.cluster)
    protected.answer = by or PROTECTED
    return world.apply(job({"trainer": role(replicas, restartScope="Pod")})).run()


def unprotect(world: World) -> object:
    world.transport = world.api._transport = CountingTransport(world.cluster)
    return world.advance(300, step_seconds=5)  # nothing in the cluster tells of it: the backoff's next try


def without_room(world: World) -> object:
    big = role(1)
    big["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4000"}}
    return world.apply(job({"trainer": big}))


def running_and_held(world: World) -> World:
    world.apply(job({"trainer": role(2, restartScope="Pod")})).run()
    return hold(world)


BY_HAND = {"metadata": {"annotations": {"Failed": "enough"}}}
"""Ends a job."""
NO_IMAGE = play(waiting_reason="ErrImagePull", waiting_message="no such image")
CASES = {
    "Pending: no node has room": Case(without_room, "Pending", "Unschedulable", "Insufficient cpu"),
    "Pending: a pod may not be made": Case(over_quota, "Pending", "FailedCreate", "exceeded quota"),
    "Creating: an image is not there": Case(
        lambda w: w.apply(job({"trainer": role(1, annotations=NO_IMAGE)})), "Creating", "ErrImagePull", "no such image"
    ),
    "Terminating: a finalizer holds a pod": Case(
        lambda w: running_and_held(w).patch_job("digits", BY_HAND),
        "Terminating",
        "PodNotGone",
        "pod digits-trainer-0 on node",
        let_go,
        "Failed",
    ),
    "Suspended: a finalizer holds a pod": Case(
        lambda w: running_and_held(w).patch_job("digits", {"spec": {"suspend": True}}),
        "Suspended",
        "PodNotGone",
        "pod digits-trainer-0 on node",
        let_go,
        "Suspended",
    ),
    "Terminating: a pod may not be deleted": Case(
        lambda w: running_and_protected(w).patch_job("digits", BY_HAND),
        "Terminating",
        "FailedDelete",
        NOT_TO_GO,
        unprotect,
        "Failed",
    ),
    "Terminating: a delete gets no answer": Case(
        lambda w: running_and_protected(w, by=SILENT).patch_job("digits", BY_HAND),
        "Terminating",
        "FailedDelete",
        "delete pods default/digits-trainer-0: no answer within 10 s",
        unprotect,
        "Failed",
    ),
    "Terminating: the operator has no right to delete pods": Case(
        lambda w: running_and_protected(w, by=NO_RIGHT).patch_job("digits", BY_HAND),
        "Terminating",
        "FailedDelete",
        'User "worker" cannot delete resource "pods"',
        unprotect,
        "Failed",
    ),
    "Suspended: a pod may not be deleted": Case(
        lambda w: running_and_protected(w).patch_job("digits", {"spec": {"suspend": True}}),
        "Suspended",
        "FailedDelete",
        NOT_TO_GO,
        unprotect,
        "Suspended",
    ),
    "Restarting: a finalizer holds a predecessor": Case(
        lambda w: running_and_held(w).delete_pod("digits-trainer-0"),
        "Restarting",
        "PodNotGone",
        "pod digits-trainer-0 on node",
        let_go,
        "Running",
    ),
}


@pytest.mark.parametrize("sentence", CASES)
def test_it_says_why(sentence: str) -> None:
    case = CASES[sentence]
    world = World()
    case.begin(world)
    world.run().advance(120, step_seconds=2)
    assert world.phase() == case.phase
    assert world.condition("Running")["reason"] == case.reason
    assert case.names in world.status()["message"]
    assert world.events().get(case.reason) == 1, world.events()
    writes = world.transport.counts["PUT aitrainingjobs/status"]
    world.advance(300, step_seconds=5)
    assert world.transport.counts["PUT aitrainingjobs/status"] == writes, "it stays, and is not written any more"
    if case.mend:
        case.mend(world)
        world.run().advance(60)
        assert world.phase() == case.want_after
        assert "still there" not in str(world.status())
        assert world.condition("Running")["reason"] != case.reason
        assert world.events()[case.reason] == 1


class OneAfterAnother(Threads):
    """The writes of a batch in one thread, for a world that has no other."""

    def begin(self, work: Callable[[], T]) -> Future[T]:
        begun: Future[T] = Future()
        begun.set_result(work())
        return begun


@pytest.mark.parametrize("width", [1, 8])
def test_a_pod_that_may_not_be_deleted_keeps_itself_alone(width: int) -> None:
    world = World(nodes=4, seed=1)
    world.worker._executor._width, world.worker._executor._threads = width, OneAfterAnother(8, "test")
    running_and_protected(world, 20).patch_job("digits", {"metadata": {"annotations": {"Failed": "enough"}}})
    world.run().advance(60)
    assert sorted(world.pods()) == ["digits-trainer-0"]
    tries = world.transport.counts["DELETE pods"]
    world.advance(600, step_seconds=5)
    assert world.transport.counts["DELETE pods"] - tries < 20, "with backoff"


def test_a_pod_that_takes_its_grace_to_go_is_not_told_of() -> None:
    world = World().apply(job({"trainer": role(2, annotations=play(terminate_seconds="never"))})).run()
    world.patch_job("digits", {"metadata": {"annotations": {"Failed": "enough"}}}).run().advance(20)
    assert (world.phase(), world.condition("Running")["reason"]) == ("Terminating", "AnnotationFailed")
    world.advance(60)
    assert (world.phase(), "PodNotGone" in world.events()) == ("Failed", False)
