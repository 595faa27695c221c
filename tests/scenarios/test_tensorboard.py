"""kubedl.io/tensorboard-config over a job's life: it is there, counts for nothing, and goes its time after the end."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from tests.scenarios.world import CountingTransport, World, job, play, role
from tests.support.clocks import shared
from tests.support.tiers import one_in
from tjworker.api import kinds
from tjworker.api.model import FieldError, InvalidJob
from tjworker.controllers.orphans import OrphanCollector
from tjworker.kube.port import HttpResponse

NAME = "kubedl.io/tensorboard-config"
POD = "digits-tensorboard-0"
TRAINERS = ["digits-trainer-0", "digits-trainer-1"]


def config(**fields: Any) -> dict[str, str]:
    return {NAME: json.dumps({"logDir": "/events", "ttlSecondsAfterJobFinished": 300} | fields)}


def digits(policy: str = "All", *, run_seconds: float | None = None, **fields: Any) -> dict[str, Any]:
    script = play() if run_seconds is None else play(run_seconds=run_seconds)
    made = job({"trainer": role(2, annotations=script)}, cleanPodPolicy=policy)
    made["metadata"]["annotations"] = config(**fields)
    return made


def settled(manifest: dict[str, Any] | None = None) -> World:
    world = World(nodes=2).apply(manifest or digits()).run()
    world.until("it serves", lambda: world.condition("TensorBoard").get("status") == "True")
    return world


def there(world: World) -> tuple[bool, bool]:
    """Its pod, its service."""
    return POD in world.pods(), POD in world.services()


def test_it_is_there_and_is_no_replica() -> None:
    world = settled()
    pod = world.pods()[POD]
    assert pod["spec"]["containers"][0]["command"][:3] == ["python", "-m", "tensorboard.main"]
    assert pod["metadata"]["labels"]["replica-type"] == "tensorboard"
    assert world.status()["replicaStatuses"]["trainer"]["desired"] == 2
    assert (world.status()["active"], world.phase(), there(world)) == ("2/2", "Running", (True, True))
    where = "http://digits-tensorboard-0.default:6006/default/digits/ shows /events"
    assert world.condition("TensorBoard")["message"].startswith(where)


def test_the_job_does_not_fail_with_it_and_it_is_made_again() -> None:
    world = settled()
    before = world.uids()
    world.patch_pod(POD, {"metadata": {"annotations": {"localcluster/evict": "limit"}}})
    world.until("it is another", lambda: world.uids().get(POD, before[POD]) != before[POD], within_seconds=90)
    world.delete_pod(POD)
    world.until("it is there again", lambda: there(world) == (True, True))
    assert {name: world.uids()[name] for name in TRAINERS} == {name: before[name] for name in TRAINERS}
    assert (world.phase(), world.status().get("restarts", 0), world.status().get("failures")) == ("Running", 0, None)


def test_another_config_makes_it_anew_and_another_ttl_does_not() -> None:
    world = settled()
    first = world.uids()[POD]
    world.patch_job("digits", {"metadata": {"annotations": config(ttlSecondsAfterJobFinished=5)}})
    world.advance(5)
    assert world.uids()[POD] == first
    world.patch_job("digits", {"metadata": {"annotations": config(logDir="/other")}})
    world.until("it is another", lambda: world.uids().get(POD, first) != first)
    assert "/other" in world.pods()[POD]["spec"]["containers"][0]["command"]


def test_without_its_annotation_it_goes() -> None:
    world = settled()
    world.patch_job("digits", {"metadata": {"annotations": {NAME: None}}})
    world.until("it is gone", lambda: there(world) == (False, False))
    assert (world.condition("TensorBoard")["reason"], world.phase()) == ("Removed", "Running")


def test_a_suspended_job_has_none() -> None:
    world = settled()
    world.patch_job("digits", {"spec": {"suspend": True}})
    world.until("all is gone", lambda: not world.pods() and not world.services())
    world.patch_job("digits", {"spec": {"suspend": False}})
    world.until("it serves", lambda: world.condition("TensorBoard").get("status") == "True")


class RefusingTrainers(CountingTransport):
    """Calls each pod of the job itself invalid."""

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        if method == "POST" and path.endswith("/pods") and b'"name":"digits-trainer-' in (more.get("body") or b""):
            return refusal(422, "Invalid", "spec.containers[0].image: Required value")
        return super().request(method, path, **more)


def test_a_job_whose_first_pods_are_refused_keeps_none() -> None:
    world = World(nodes=2)
    world.api._transport = RefusingTrainers(world.cluster)
    world.apply(digits())
    world.until("the job is refused", lambda: world.status().get("refused") == "Create")
    world.advance(30)
    assert (there(world), world.pods()) == ((False, False), {})


class Refusing(CountingTransport):
    """Answers as `answer` to whoever makes TensorBoard's pod (its service), while it has one."""

    def __init__(self, world: World, resource: str, answer: HttpResponse) -> None:
        super().__init__(world.cluster)
        self.resource, self.answer = resource, answer
        self.refuses = True

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        named = f'"name":"{POD}"'.encode() in (more.get("body") or b"")
        if self.refuses and method == "POST" and path.endswith(f"/{self.resource}") and named:
            self.counts["refused"] += 1
            return self.answer
        return super().request(method, path, **more)


def refusal(code: int, reason: str, message: str) -> HttpResponse:
    return HttpResponse(
        code, orjson.dumps({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message})
    )


INVALID = refusal(422, "Invalid", f'Pod "{POD}" is invalid: Bidirectional is for privileged containers')
QUOTA = refusal(403, "Forbidden", f'pods "{POD}" is forbidden: exceeded quota: team, used: pods=2')
REFUSALS: dict[str, tuple[str, HttpResponse, str, int]] = {
    "its pod is called invalid": ("pods", INVALID, "Bidirectional is for privileged", 10),
    "its service is called invalid": ("services", INVALID, "Bidirectional is for privileged", 10),
    "the namespace is over its quota": ("pods", QUOTA, "exceeded quota: team", 40),
    "the operator may not make it": ("pods", refusal(403, "Forbidden", 'User "x" cannot create it'), "cannot", 10),
    "the API server cannot": ("pods", refusal(500, "InternalError", "failed calling webhook: EOF"), "EOF", 40),
}


@pytest.mark.parametrize("sentence", one_in(2, REFUSALS))
def test_one_that_is_refused_is_told_once_and_the_job_goes_on(sentence: str) -> None:
    resource, answer, words, most = REFUSALS[sentence]
    world = World(nodes=2)
    refusing = world.api._transport = Refusing(world, resource, answer)
    world.apply(digits()).run()
    world.until("it is told", lambda: world.condition("TensorBoard").get("reason") == "FailedCreate")
    world.until("the job runs", lambda: world.phase() == "Running")
    before, kept = refusing.counts["PUT aitrainingjobs/status"], dict(world.condition("TensorBoard"))
    world.advance(900, step_seconds=5)
    told = world.condition("TensorBoard")
    assert told == kept
    assert words in told["message"]
    assert told["message"].endswith("; the job goes on without it")
    assert (world.phase(), world.condition("Running")["status"], world.condition("Failed")) == ("Running", "True", {})
    assert (world.events()["FailedCreate"], refusing.counts["PUT aitrainingjobs/status"]) == (1, before)
    assert refusing.counts["refused"] <= most
    assert world.store.queue.stats().failing == 0, "the pass has done its work"
    refusing.refuses = False
    world.until("it serves", lambda: world.condition("TensorBoard").get("status") == "True", within_seconds=330)


@pytest.mark.parametrize(
    ("answer", "most"),
    [pytest.param(QUOTA, 14, id="a quota"), pytest.param(INVALID, 4, id="called invalid", marks=pytest.mark.long)],
)
def test_passes_of_a_busy_job_do_not_try_a_refused_one_each_time(answer: HttpResponse, most: int) -> None:
    """For five minutes, in which it is scaled every five seconds; and an edit of what was refused is tried at once."""
    world = World(nodes=2)
    refusing = world.api._transport = Refusing(world, "pods", answer)
    made = job({"trainer": role(2, minReplicas=1, maxReplicas=4)})
    made["metadata"]["annotations"] = config()
    world.apply(made).run()
    world.until("it is told", lambda: world.condition("TensorBoard").get("reason") == "FailedCreate")
    for turn in range(60):
        world.scale("digits", 1 + turn % 4).run().advance(5)
    assert 1 < refusing.counts["refused"] <= most
    world.advance(20)
    tried = refusing.counts["refused"]
    world.scale("digits", 2).run()
    assert refusing.counts["refused"] == tried
    edited = {"metadata": {"annotations": config(image="another")}}
    world.patch_job("digits", edited).run()
    assert refusing.counts["refused"] == tried + 1


def test_a_pod_of_its_name_that_is_a_strangers_is_told_and_the_job_goes_on() -> None:
    world = World(nodes=2)
    spec = {"containers": [{"name": "a", "image": "b"}]}
    world.create_pod({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec})
    world.apply(digits()).run()
    world.until("it is told", lambda: world.condition("TensorBoard").get("reason") == "FailedCreate")
    world.until("the job runs", lambda: world.phase() == "Running")
    assert "exists already and does not belong to this job" in world.condition("TensorBoard")["message"]
    world.delete_pod(POD)
    world.until("it serves", lambda: world.condition("TensorBoard").get("status") == "True", within_seconds=60)


@pytest.mark.parametrize("who", ["the timer", "the orphan collector"])
def test_one_of_an_ended_job_goes_though_the_spec_cannot_be_used_any_more(
    who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(nodes=2).apply(digits(run_seconds=20, ttlSecondsAfterJobFinished=90)).run()
    world.until("it ends", lambda: world.phase() == "Succeed")
    parse = kinds.parse
    monkeypatch.setattr(kinds, "parse", lambda *raw: InvalidJob.of(parse(*raw), (FieldError("spec", "made up"),)))
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 3}}}})
    world.advance(5)
    if who == "the timer":
        world.until("it is gone", lambda: there(world) == (False, False), within_seconds=120)
        world.until("that is written", lambda: "tensorboardUntil" not in world.status())
    else:
        later = OrphanCollector(world.store, world.api, world.settings, clock=shared(lambda: world.clock() + 300))
        assert later.collect() == (2, 0)
    assert (world.phase(), world.condition("Failed")) == ("Succeed", {})


def test_an_ended_job_keeps_its_ttl_though_its_framework_could_not_run_it_any_more() -> None:
    made = role(1, annotations=play(run_seconds=5))
    manifest = job({"master": made}, frameworkType="pytorch", runPolicy={"ttlSecondsAfterFinished": 60})
    world = World(nodes=2).apply(manifest).run()
    world.until("it ends", lambda: world.phase() == "Succeed")
    world.patch_job("digits", {"spec": {"replicaSpecs": {"master": {"replicas": 2}}}})
    world.until("the job is gone", lambda: not world.jobs(), within_seconds=120)


@pytest.mark.parametrize(("policy", "ttl"), [("All", 40), ("Running", 0), ("None", 40)])
def test_it_outlives_the_job_by_its_ttl_and_no_longer(policy: str, ttl: int) -> None:
    world = World(nodes=2).apply(digits(policy, run_seconds=20, ttlSecondsAfterJobFinished=ttl)).run()
    world.until("it ends", lambda: world.phase() == "Succeed")
    if ttl:
        world.advance(ttl - 10)
        assert there(world) == (True, True)
        assert sorted(world.uids()) == sorted([POD, *([] if policy == "All" else TRAINERS)])
    world.until("it is gone", lambda: there(world) == (False, False), within_seconds=30)
    world.advance(5)
    assert "tensorboardUntil" not in world.status()
    assert sorted(world.uids()) == ([] if policy == "All" else TRAINERS)
    before = world.requests()
    world.advance(20)
    assert world.requests() == before, "a finished job costs nothing"


def test_a_job_that_goes_by_its_own_ttl_takes_it_along() -> None:
    manifest = digits(run_seconds=5)
    manifest["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": 60}
    world = World(nodes=2).apply(manifest).run()
    world.until("the job is gone", lambda: not world.jobs(), within_seconds=120)
    world.until("and all of it", lambda: there(world) == (False, False))


def test_the_orphan_collector_lets_it_live_and_takes_it_when_nobody_else_has() -> None:
    world = World(nodes=2).apply(digits(run_seconds=5)).run()
    world.until("it ends", lambda: world.phase() == "Succeed")
    found = []
    for later in (120.0, 400.0):  # nobody wakes for its time

        def clock(later: float = later) -> float:
            return world.clock() + later

        found.append(OrphanCollector(world.store, world.api, world.settings, clock=shared(clock)).collect())
    assert found == [(0, 0), (2, 0)]
