"""A worker that dies at any of its writes to the API server, before the write or after it and before it heard the
answer: the job comes to the same end, with the same pods made as often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.scenarios.world import CountingTransport, World, job, play, role, training_job
from tjworker.api.status import END_PHASES
from tjworker.kube.port import HttpResponse

FLAKY = play(start_seconds=1, failing_attempts=1, failing_exit_code=137, failing_run_seconds=4, run_seconds=5)
MANIFESTS: Mapping[str, Any] = {
    "succeeds": job({"ps": role(1, completePolicy="None"), "trainer": role(2, annotations=play(run_seconds=5))}),
    "one pod restarts": job({"trainer": role(2, annotations=FLAKY, restartPolicy="ExitCode", restartScope="Pod")}),
    "the whole job restarts": job(
        {"ps": role(1, completePolicy="None"), "trainer": role(1, annotations=FLAKY, restartPolicy="ExitCode")}
    ),
    "a TrainingJob succeeds": training_job(
        least=1, pservers=1, play={"trainer": {"start_seconds": 1, "run_seconds": 9}}
    ),
    "a trainer of a TrainingJob is replaced": training_job(
        least=2,
        fault_tolerant=True,
        play={
            "trainer": {"failing_attempts": 1, "failing_exit_code": 137, "failing_run_seconds": 6, "run_seconds": 11}
        },
    ),
    "fails": job(
        {"ps": role(1, completePolicy="None"), "trainer": role(1, annotations=play(run_seconds=6, exit_code=1))}
    ),
}


class Died(BaseException):
    """Not an Exception: nothing may catch it, as nothing catches a kill -9."""


class DyingTransport(CountingTransport):
    """Counts writes, and dies at one of them."""

    writes = 0
    die_at = -1
    after = False

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        if method == "GET" or path.endswith("/events"):
            return super().request(method, path, **more)
        number, self.writes = self.writes, self.writes + 1
        if number == self.die_at and not self.after:
            raise Died
        answer = super().request(method, path, **more)
        if number == self.die_at:
            raise Died
        return answer


class MortalWorld(World):
    """A world whose worker may die; another worker then goes on, once the lease has lapsed and the resync has found
    it."""

    def __init__(self, die_at: int, after: bool) -> None:
        super().__init__(seed=7, lock_ttl_seconds=3, resync_seconds=3)
        self.dying = DyingTransport(self.cluster)
        self.dying.die_at, self.dying.after = die_at, after
        self.api._transport = self.dying
        self.made: Counter[str] = Counter()
        self._uids: set[str] = set()
        self.deaths = 0

    def work(self) -> None:
        try:
            super().work()
        except Died:
            self.deaths += 1
            self.worker = self.make_worker(f"worker-{self.deaths + 1}")

    def play(self, manifest: Any, seconds: int = 60) -> dict[str, Any]:
        self.apply(manifest)
        for now in range(seconds):
            self.run()
            if now % 3 == 0:
                self.queue.publish(self.store.queue.resync(lost_after_seconds=3, everything=False))
            self._see_pods()
            self.advance(1)
            if self.phase() in END_PHASES and not self.pods():
                break
        status = self.status()
        return {
            "phase": self.phase(),
            "restarts": status.get("restartCounts"),
            "made": dict(self.made),
            "pods": self.pods(),
            "services": self.services(),
            "succeeded": {n: r["succeeded"] for n, r in status["replicaStatuses"].items()},
            "failures": len(status.get("failures", ())),
        }

    def _see_pods(self) -> None:
        for name, pod in self.pods().items():
            if (uid := pod["metadata"]["uid"]) not in self._uids:
                # The names that a ReplicaSet or Job makes up are never the same; how many it makes is.
                self.made[pod["metadata"].get("generateName", name)] += 1
                self._uids.add(uid)


def writes_of(manifest: Any) -> tuple[int, dict[str, Any]]:
    world = MortalWorld(-1, after=False)
    end = world.play(manifest)
    return world.dying.writes, end


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS.keys())
def test_a_worker_may_die_at_any_write(manifest: Any) -> None:
    count, want = writes_of(manifest)
    assert want["phase"] in ("Succeed", "Failed")
    for die_at in range(count):
        for after in (False, True):
            world = MortalWorld(die_at, after)
            assert world.play(manifest) == want, f"died {'after' if after else 'before'} write {die_at} of {count}"
            assert world.deaths == 1
