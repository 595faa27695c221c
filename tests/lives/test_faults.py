"""What the API server may answer instead of doing what it was asked, at every request of a life: the same end."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from celery.exceptions import SoftTimeLimitExceeded

from tests.lives.world import CountingTransport, World, job, play, role
from tjworker.base import JobKey, Transient
from tjworker.kube.port import HttpResponse
from tjworker.reconcile import reconcile

FLAKY = play(failing_attempts=1, failing_exit_code=137, failing_run_seconds=4, run_seconds=5)
MANIFEST = job({
    "ps": role(1, completePolicy="None"), "trainer": role(1, annotations=FLAKY, restartPolicy="ExitCode", restartScope="Pod"),
})


def refusal(code: int, reason: str, **headers: str) -> HttpResponse:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": f"made up: {reason}"}
    return HttpResponse(code, orjson.dumps(status), headers)


OVER_QUOTA = HttpResponse(403, orjson.dumps({
    "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
    "message": 'pods "digits-trainer-0" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=9',
}))
FAULTS: dict[str, HttpResponse | Transient | Exception] = {
    "409 Conflict": refusal(409, "Conflict"),
    "429 with Retry-After": refusal(429, "TooManyRequests", **{"retry-after": "2"}),
    "500": refusal(500, "InternalError"),
    "503": refusal(503, "ServiceUnavailable"),
    "403 over quota": OVER_QUOTA,
    "no answer": Transient("connection reset"),
    "the soft time limit": SoftTimeLimitExceeded(),
}


class FaultyTransport(CountingTransport):
    """Gives one write, by number, a fault instead of doing it."""

    writes = 0
    fail_at = -1
    fault: HttpResponse | Transient | Exception = Transient("")

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        if method == "GET" or path.endswith("/events"):
            return super().request(method, path, **more)
        number, self.writes = self.writes, self.writes + 1
        if number != self.fail_at:
            return super().request(method, path, **more)
        if isinstance(self.fault, HttpResponse):
            return self.fault
        raise self.fault


def live(fail_at: int, fault: HttpResponse | Transient | Exception) -> tuple[World, FaultyTransport, dict[str, Any]]:
    world = World(seed=3)
    faulty = FaultyTransport(world.cluster)
    faulty.fail_at, faulty.fault = fail_at, fault
    world.api._transport = faulty
    world.apply(MANIFEST).run().advance(40)
    status = world.status()
    return world, faulty, {
        "phase": world.phase(), "restarts": status.get("restartCounts"), "pods": world.pods(), "services": world.services(),
        "made": faulty.counts["POST pods"] - (faulty.counts["GET pods"] if fail_at < 0 else 0),
    }


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_any_write_may_fail_once(fault: HttpResponse | Transient | Exception) -> None:
    _, whole, want = live(-1, Transient(""))
    assert want["phase"] == "Succeed"
    for number in range(whole.writes):
        world, faulty, end = live(number, fault)
        assert end == want, f"write {number} of {whole.writes}: {world.results}"
        assert faulty.writes <= whole.writes + 6, "requests stay bounded"


def test_a_bug_costs_one_job_alone_and_the_worker_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: Any, *more: Any) -> Any:
        if job.name.name == "cursed":
            raise ZeroDivisionError("made up")
        return reconcile(job, *more)

    monkeypatch.setattr("tjworker.worker.reconcile", broken)
    world = World().apply(job({"trainer": role(1)}, name="cursed")).apply(job({"trainer": role(1)}, name="fine")).run()
    assert world.phase("fine") == "Running"
    assert [r for r in world.results if r.startswith("bug: ZeroDivisionError")] != []
    assert world.advance(60).store.stats().delayed == 1


GARBAGE = ["", "x", "a/b/c/d", "aitrainingjobs/default/UPPER", "aitrainingjobs/default/a\nb", "a" * 5000, "../../etc/passwd"]


@pytest.mark.parametrize("key", GARBAGE)
def test_a_message_that_is_no_key_is_refused_and_forgotten(key: str) -> None:
    world = World()
    assert world.worker.handle(key).startswith("refused: ")


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


def test_a_crash_loop_without_a_limit_slows_down() -> None:
    broken = play(run_seconds=0, exit_code=3)
    world = World().apply(job({"trainer": role(1, annotations=broken, restartPolicy="OnFailure", restartScope="Pod")}))
    world.run().advance(600, step_seconds=2)
    assert 6 <= world.transport.counts["POST pods"] <= 9
    assert world.condition("Running")["reason"] == "BackOff"


def test_while_one_watch_is_away_passes_become_rare_and_its_return_is_noticed_at_once() -> None:
    """The operator has made pods and its own watch does not show them: whoever waits for that must not spin."""
    world = World().apply(job({"trainer": role(2, annotations=play(start_seconds=1, run_seconds=600))}))
    world.run()
    informers = world.watcher.informers
    world.watcher.informers = [i for i in informers if i.resource != "pods"]
    world.patch_job("digits", {"spec": {"replicaSpecs": {"trainer": {"replicas": 3}}}}).run()
    before = len(world.results)
    world.queue.publish(world.store.add([JobKey("aitrainingjobs/default/digits")]))
    world.advance(120, step_seconds=0.5)
    assert 8 <= len(world.results) - before <= 20
    assert set(world.results[before:]) == {"waits for the watch to show an own write"}
    world.watcher.informers = informers
    assert world.run().advance(1).condition("Running")["status"] == "True", "its pods' news queue the key"
