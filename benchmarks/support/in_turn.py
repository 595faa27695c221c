"""A worker's Runtime without threads: passes run one after another, and events are sent at once. So tests, simulations
and benchmarks see each request in its order, and may use a cluster that is not thread-safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tjworker.clock import ClusterClock
from tjworker.controllers.concurrent import GATHER_SECONDS, ConcurrentPasses, T
from tjworker.kube.client import KubeClient
from tjworker.publisher import KeyPublisher
from tjworker.settings import Settings
from tjworker.store.port import Store
from tjworker.telemetry.events import EventRecorder
from tjworker.worker.runtime import Runtime, assemble


class PassesInTurn(ConcurrentPasses[T]):
    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__(1)
        self._monotonic = monotonic

    def run(
        self, passes: Sequence[Callable[[], T]], release: Callable[[Sequence[T]], None], ended: Sequence[T] = ()
    ) -> None:
        unreleased, since = list(ended), self._monotonic()
        for run_pass in passes:
            unreleased.append(run_pass())
            # As with threads: no ended pass waits longer for another.
            if self._monotonic() - since >= GATHER_SECONDS:
                release(unreleased)
                unreleased, since = [], self._monotonic()
        if unreleased:
            release(unreleased)


class EventsAtOnce(EventRecorder):
    def _hand_over(self, namespace: str, body: Mapping[str, Any]) -> None:
        self._send_event(namespace, body)


def assemble_in_turn(
    settings: Settings, store: Store, kube: KubeClient, publisher: KeyPublisher, *, owner: str, clock: ClusterClock
) -> Runtime:
    events, passes = EventsAtOnce(kube, clock=clock), PassesInTurn[Any](clock.monotonic)
    return assemble(settings, store, kube, publisher, events, passes, owner=owner, clock=clock)
