"""Bugs, garbage and permanent failure. That any request may fail once, in each way, is row 15 of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from tests.scenarios.world import CountingTransport, World, job, play, role
from tests.support.passes import reconcile_key
from tests.support.tiers import one_in
from tjworker.api.resources import PODS
from tjworker.base import JobKey
from tjworker.kube.port import HttpResponse
from tjworker.reconcile import reconcile


def forbidden(message: str) -> HttpResponse:
    status = {"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message}
    return HttpResponse(403, orjson.dumps(status))


OVER_QUOTA = forbidden('pods "digits-trainer-0" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=9')


def test_a_bug_costs_one_job_alone_and_the_worker_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: Any, *more: Any) -> Any:
        if job.name.name == "cursed":
            raise ZeroDivisionError("made up")
        return reconcile(job, *more)

    monkeypatch.setattr("tjworker.controllers.jobs.reconcile", broken)
    world = World().apply(job({"trainer": role(1)}, name="cursed")).apply(job({"trainer": role(1)}, name="fine")).run()
    assert world.phase("fine") == "Running"
    assert [r for r in world.results if "bug: ZeroDivisionError" in r] != []
    assert world.advance(60).store.queue.stats().delayed == 1


GARBAGE = [
    "",
    "x",
    "a/b/c/d",
    "aitrainingjobs.elasticdeeplearning.ai/default/UPPER",
    "aitrainingjobs.elasticdeeplearning.ai/default/a\nb",
    "a" * 5000,
    "../../etc/passwd",
]


@pytest.mark.parametrize("key", GARBAGE)
def test_a_message_that_is_no_key_is_refused_and_forgotten(key: str) -> None:
    world = World()
    assert reconcile_key(world.worker, key).startswith("refused: ")


def test_permanent_failure_keeps_requests_bounded() -> None:
    """A job over its quota: one failing create a pass, with backoff; the words stand in its condition."""
    world = World()

    class Full(CountingTransport):
        def request(self, method: str, path: str, **more: Any) -> HttpResponse:
            if method == "POST" and path.endswith("/pods"):
                self.counts["refused"] += 1
                return OVER_QUOTA
            return super().request(method, path, **more)

    full = Full(world.cluster)
    world.api._transport = full
    world.apply(job({"trainer": role(8, ports=())})).run().advance(600, step_seconds=5)
    assert full.counts["refused"] <= 14
    assert "exceeded quota" in world.condition("Running")["message"]
    assert full.counts["PUT aitrainingjobs/status"] <= 2


@dataclass(frozen=True)
class Timed:
    """A job of which only so many pods as `room` may be made, for ever: each of its passes ends with a refused create.
    After an hour of that, `then`; and so long after that it must be `done`."""

    begin: Callable[[World], object]
    done: Callable[[World], bool]
    within_seconds: float
    room: int = 3
    then: Callable[[World], object] = lambda world: None


def over(world: World) -> bool:
    return world.phase() in ("Failed", "Timeout")


def elastic(replicas: int, **spec: Any) -> dict[str, Any]:
    return job({"trainer": role(replicas, ports=(), restartPolicy="OnNodeFail", restartScope="Pod")}, **spec)


TIMED = {
    "activeDeadlineSeconds": Timed(
        lambda w: w.apply(elastic(1, runPolicy={"activeDeadlineSeconds": 3700})), over, 110, room=0
    ),
    "timeLimit": Timed(lambda w: w.apply(elastic(3, timeLimit=3700)).run().advance(10).scale("digits", 4), over, 110),
    "the grace of a node that dies": Timed(
        lambda w: w.apply(elastic(4)),
        lambda w: "NodeLost" in [f["reason"] for f in w.status().get("failures", ())],
        80,
        then=lambda w: w.fail_node(w.pods()["digits-trainer-0"]["spec"]["nodeName"]),
    ),
}


@pytest.mark.parametrize("sentence", one_in(3, TIMED))
def test_what_a_job_waits_for_is_not_put_off_by_a_create_that_is_refused_again_and_again(sentence: str) -> None:
    case = TIMED[sentence]
    world = World(nodes=3, seed=1)

    class Full(CountingTransport):
        def request(self, method: str, path: str, **more: Any) -> HttpResponse:
            if method == "POST" and path.endswith("/pods") and len(world.pods()) >= case.room:
                return OVER_QUOTA
            return super().request(method, path, **more)

    world.api._transport = Full(world.cluster)
    case.begin(world)
    world.run().advance(3600, step_seconds=10)
    assert not case.done(world)
    case.then(world)
    world.until("it is done", lambda: case.done(world), within_seconds=case.within_seconds)


def test_a_crash_loop_without_a_limit_slows_down() -> None:
    broken = play(run_seconds=0, exit_code=3)
    world = World().apply(job({"trainer": role(1, annotations=broken, restartPolicy="OnFailure", restartScope="Pod")}))
    world.run().advance(600, step_seconds=2)
    assert 6 <= world.transport.counts["POST pods"] <= 9
    assert world.condition("Running")["reason"] == "BackOff"


def test_while_one_watch_is_away_passes_become_rare_and_its_return_is_noticed_at_once() -> None:
    """The operator has made pods and its own watch does not show them: a pass that waits for that must not spin."""
    world = World().apply(job({"trainer": role(2, annotations=play(start_seconds=1, run_seconds=600))}))
    world.run()
    reflectors = world.watcher.reflectors
    world.watcher.reflectors = [i for i in reflectors if i.resource != PODS]
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 3}}}}).run()
    before = len(world.results)
    world.queue.publish(world.store.queue.add([JobKey("aitrainingjobs.elasticdeeplearning.ai/default/digits")]))
    world.advance(120, step_seconds=0.5)
    assert 8 <= len(world.results) - before <= 20
    assert set(world.results[before:]) == {"waits until the watch shows the last write of this job"}
    world.watcher.reflectors = reflectors
    assert world.run().advance(1).condition("Running")["status"] == "True", "its pods' news queue the key"
