"""A worker that sleeps past its lease at any of its writes, while another worker takes the key and goes on with the
job; then the first one wakes up in the middle of its pass and sends what it was about to send. (SIGSTOP, a swapping
machine, a VM that moves.) The lease alone cannot stop that one write: only what the write itself carries can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.scenarios.test_crashes import MANIFESTS, MortalWorld
from tests.scenarios.world import CountingTransport
from tjworker.kube.client import KubeClient
from tjworker.kube.port import HttpResponse

ASLEEP_SECONDS = 4  # `MortalWorld` has leases of 3


class PausingTransport(CountingTransport):
    """Counts writes, and sleeps at one of them."""

    writes = 0
    pause_at = -1
    after = False
    sleep: Callable[[], None]

    def request(self, method: str, path: str, **more: Any) -> HttpResponse:
        if method == "GET" or path.endswith("/events"):
            return super().request(method, path, **more)
        number, self.writes = self.writes, self.writes + 1
        if number == self.pause_at and not self.after:
            self.sleep()
        answer = super().request(method, path, **more)
        if number == self.pause_at and self.after:
            self.sleep()
        return answer


class PausedWorld(MortalWorld):
    """`worker` sleeps once; while it does, a second worker has the system to itself."""

    def __init__(self, pause_at: int, after: bool) -> None:
        super().__init__(-1, after=False)
        self.pausing = PausingTransport(self.cluster)
        self.pausing.pause_at, self.pausing.after, self.pausing.sleep = pause_at, after, self._others_go_on
        self.api._transport = self.pausing
        self.slept = 0
        first, self.api = self.api, KubeClient(CountingTransport(self.cluster))
        self.second = self.make_worker("worker-2")
        self.api = first

    def _others_go_on(self) -> None:
        self.slept += 1
        self.worker, sleeper = self.second, self.worker
        for _ in range(ASLEEP_SECONDS):
            self.advance(1)
            self.queue.publish(self.store.queue.resync(lost_after_seconds=3, everything=False))
            self.run()
            self._see_pods()
        self.worker = sleeper


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS.keys())
def test_a_worker_may_sleep_past_its_lease_at_any_write(manifest: Any) -> None:
    whole = PausedWorld(-1, after=False)
    want = whole.play(manifest)
    assert want["phase"] in ("Succeed", "Failed")
    for pause_at in range(whole.pausing.writes):
        for after in (False, True):
            world = PausedWorld(pause_at, after)
            end = world.play(manifest)
            assert end == want, f"slept {'after' if after else 'before'} write {pause_at} of {whole.pausing.writes}"
            assert world.slept == 1
